"""Prints, as JSON, the versions of CUDA's libraries that PyTorch has loaded: asked of the very files in its memory."""

from __future__ import annotations

import ctypes
import json

import torch


def loaded(name: str) -> str:
    """Path of a library that this process has mapped, or nothing."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if name in line}
    return next(iter(paths), "")


def version(name: str, function: str) -> int | None:
    """What `int function(int *version)` of a loaded library says; CUDA 11's runtime says nothing without a driver."""
    found = ctypes.c_int()
    if getattr(ctypes.CDLL(loaded(name)), function)(ctypes.byref(found)):
        return None
    return found.value


libraries = {"cudart": "cudaRuntimeGetVersion", "nccl": "ncclGetVersion"}
print(
    json.dumps(
        {
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "nccl": torch.cuda.nccl.version(),
            "files": {name: loaded(f"/lib{name}.so") for name in (*libraries, "cudnn")},
            "loaded": {
                name: version(f"/lib{name}.so", ask) for name, ask in libraries.items() if loaded(f"/lib{name}.so")
            },
        }
    )
)
