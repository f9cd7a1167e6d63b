"""Lets the CUDA plug-in of PyTorch/XLA compile a program for an H100: needs no GPU, but XLA's own ptxas and libdevice.

Neither torch_xla nor the plug-in offers that to Python, so this calls PJRT's C interface (xla/pjrt/c/pjrt_c_api.h).
Every field of its structs takes a word of 8 bytes: the struct's size, a pointer to extensions, then the arguments.
"""

import ctypes
from importlib.util import find_spec
from pathlib import Path

# Places in the table of functions, which only grows at its end, after a header of five words.
HEADER, ERROR_MESSAGE, PLUGIN_INITIALIZE, TOPOLOGY_CREATE, COMPILE = 5, 1, 3, 82, 89
STRING = 0  # kind of a named value
# GpuTargetConfigProto: what a compiler asks of the GPU that it compiles for.
H100 = b"""
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 84942979072
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 cuda_compute_capability { major: 9 }
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 } runtime_version { major: 12 minor: 8 }
"""
# x to the power of x is a function of libdevice.
PROGRAM = b"""
func.func public @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.power %x, %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
"""
OPTIONS = b"\x1a\x04\x20\x01\x28\x01"  # CompileOptionsProto of one replica and one partition

kept = []  # what C has pointers to


def address(data: object) -> int:
    """Where bytes or a struct lie, for the rest of this process."""
    kept.append(ctypes.create_string_buffer(data) if isinstance(data, bytes) else data)
    return ctypes.addressof(kept[-1])


def struct(*arguments: object) -> ctypes.Array:
    """A struct; bytes become two words, where they are and how many."""
    words = []
    for argument in arguments:
        words += [address(argument), len(argument)] if isinstance(argument, bytes) else [argument]
    return (ctypes.c_uint64 * (len(words) + 2))(8 * (len(words) + 2), 0, *words)


plug_in = Path(next(iter(find_spec("jax_plugins.xla_cuda12").submodule_search_locations)), "xla_cuda_plugin.so")
library = ctypes.CDLL(str(plug_in))
library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_void_p)
table = library.GetPjrtApi()


def call(place: int, arguments: ctypes.Array) -> int:
    """Call a function of the table; gives back the last field of its arguments, the result, and ends on an error."""
    error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table[HEADER + place])(ctypes.byref(arguments))
    if error:
        message = struct(error, 0, 0)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(table[HEADER + ERROR_MESSAGE])(ctypes.byref(message))
        raise SystemExit(ctypes.string_at(message[3], message[4]).decode())
    return arguments[-1]


call(PLUGIN_INITIALIZE, struct())
options = [struct(b"target_config", STRING, H100), struct(b"topology", STRING, b"1x1x1")]
table_of_options = (ctypes.c_uint64 * 14)(*options[0], *options[1])
topology = call(TOPOLOGY_CREATE, struct(b"", address(table_of_options), len(options), 0))
program = struct(PROGRAM, b"mlir")
print("compiled" if call(COMPILE, struct(topology, address(program), OPTIONS, 0, 0)) else "nothing")
