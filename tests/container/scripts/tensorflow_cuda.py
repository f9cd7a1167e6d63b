"""Prints, as JSON, whether TensorFlow finds CUDA's libraries, their versions, and where its XLA looks for the toolkit.

It loads them once it has found a GPU. Here functions of its own loader, tsl/platform/dso_loader.h, are called by their
names in the library, which look where they would look then. The C++ object that one gives back goes where the first
argument points; a status is a word, 1 where all is well.
"""

import ctypes
import json
from pathlib import Path

import tensorflow as tf

CHECK_ALL = "_ZN3tsl8internal9DsoLoader26MaybeTryDlopenGPULibrariesEv"  # without these, TensorFlow refuses every GPU
GET_NCCL = "_ZN3tsl8internal9DsoLoader16GetNcclDsoHandleEv"
CUDA_ROOTS = "_ZN3tsl18CandidateCudaRootsB5cxx11Ev"
STRING_BYTES = 32  # a std::string: address, length, and room for 16 characters

tensorflow = ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2")))


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
    """Folders in which XLA looks for bin/ptxas and nvvm/libdevice, from a vector of strings."""
    begin, end, _ = call(CUDA_ROOTS, 3)
    texts = ((ctypes.c_uint64 * 2).from_address(text) for text in range(begin, end, STRING_BYTES))
    return [ctypes.string_at(*text).decode() for text in texts]


if call(CHECK_ALL, 1)[0] != 1 or call(GET_NCCL, 2)[0] != 1:
    raise SystemExit("TensorFlow does not find all of CUDA's libraries; TF_CPP_MAX_VLOG_LEVEL=3 says which")
print(
    json.dumps(
        {
            "build": tf.sysconfig.get_build_info(),
            "cudart": version("libcudart", "cudaRuntimeGetVersion"),
            "cudnn": ctypes.CDLL(loaded("libcudnn")).cudnnGetVersion(),
            "nccl": version("libnccl", "ncclGetVersion"),
            "files": [loaded(name) for name in ("libcudart", "libcudnn", "libnccl")],
            "toolkits": [root for root in cuda_roots() if Path(root, "bin/ptxas").exists()],
            "libdevice": [root for root in cuda_roots() if Path(root, "nvvm/libdevice/libdevice.10.bc").exists()],
        }
    )
)
