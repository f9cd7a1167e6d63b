"""Prints, as JSON, whether TensorFlow finds CUDA's libraries, their versions, and where its XLA looks for the toolkit.

It loads them once it has found a GPU. Here functions of its own loader, platform/dso_loader.h, are called by their
names in the library, which look where they would look then. The C++ object that one gives back goes where the first
argument points. A status is a word, whose value where all is well depends on the version: it is read beside a handle.
"""

import ctypes
import json
from pathlib import Path

import tensorflow as tf

LIBRARIES = Path(tf.sysconfig.get_lib())
OLD = not (LIBRARIES / "libtensorflow_cc.so.2").exists()  # 2.6 has another namespace
LOADER = "_ZN15stream_executor8internal9DsoLoader" if OLD else "_ZN3tsl8internal9DsoLoader"
CHECK_ALL = LOADER + "26MaybeTryDlopenGPULibrariesEv"  # without these, TensorFlow refuses every GPU
GET_CUDA_RUNTIME = LOADER + "23GetCudaRuntimeDsoHandleEv"
GET_NCCL = LOADER + "16GetNcclDsoHandleEv"
CUDA_ROOTS = "_ZN10tensorflow18CandidateCudaRootsEv" if OLD else "_ZN3tsl18CandidateCudaRootsB5cxx11Ev"
STRING_BYTES = 8 if OLD else 32  # a std::string: its address; or address, length, and room for 16 characters

tensorflow = ctypes.CDLL(str(LIBRARIES / ("libtensorflow_framework.so.2" if OLD else "libtensorflow_cc.so.2")))

NCCL_INSIDE = not hasattr(tensorflow, GET_NCCL)  # until 2.12


def call(name: str, words: int) -> ctypes.Array:
    """The object that a C++ function without arguments gives back, in words of 8 bytes."""
    found = (ctypes.c_uint64 * words)()
    getattr(tensorflow, name)(ctypes.byref(found))
    return found


def loaded(name: str) -> str:
    """Path of a library that this process has mapped, or nothing."""
    paths = {word for word in Path("/proc/self/maps").read_text().split() if f"/{name}.so" in word}
    return next(iter(paths), "")


def version(name: str, function: str) -> int:
    """What `int function(int *version)` of a loaded library says."""
    found = ctypes.c_int()
    getattr(ctypes.CDLL(loaded(name)), function)(ctypes.byref(found))
    return found.value


def cuda_roots() -> list:
    """Folders in which XLA looks for bin/ptxas and nvvm/libdevice, from a vector of strings; links followed."""
    begin, end, _ = call(CUDA_ROOTS, 3)
    texts = (ctypes.c_char_p.from_address(text).value for text in range(begin, end, STRING_BYTES))
    return [str(Path(text.decode()).resolve()) for text in texts if text]


ok, runtime = call(GET_CUDA_RUNTIME, 2)  # status and handle of a library
if not runtime or call(CHECK_ALL, 1)[0] != ok or not (NCCL_INSIDE or call(GET_NCCL, 2)[0] == ok):
    raise SystemExit("TensorFlow does not find all of CUDA's libraries; TF_CPP_MAX_VLOG_LEVEL=3 says which")
print(
    json.dumps(
        {
            "build": tf.sysconfig.get_build_info(),
            "cudart": version("libcudart", "cudaRuntimeGetVersion"),
            "cudnn": ctypes.CDLL(loaded("libcudnn")).cudnnGetVersion(),
            "nccl": None if NCCL_INSIDE else version("libnccl", "ncclGetVersion"),
            "files": [loaded(name) for name in ("libcudart", "libcudnn", *(() if NCCL_INSIDE else ("libnccl",)))],
            "toolkits": [root for root in cuda_roots() if Path(root, "bin/ptxas").exists()],
            "libdevice": [root for root in cuda_roots() if Path(root, "nvvm/libdevice/libdevice.10.bc").exists()],
        }
    )
)
