"""PyTorch/XLA's client for NVIDIA GPUs: the PJRT plug-in of `jax-cuda12-pjrt`, found by its path, without JAX.

torch_xla loads this itself through the entry point `torch_xla.plugins` when PJRT_DEVICE is CUDA. Each process that
torchrun starts takes the GPU of its LOCAL_RANK. Not tried on a GPU yet; without one it ends with "no visible devices".
"""

import importlib.util
import os
from pathlib import Path

import torch
from torch_xla.experimental.plugins import DevicePlugin

PACKAGE, LIBRARY = "jax_plugins.xla_cuda12", "xla_cuda_plugin.so"


class CudaPlugin(DevicePlugin):
    """One GPU per process; processes meet through XLA's coordinator at MASTER_ADDR."""

    def library_path(self):
        """Path of the plug-in."""
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError(f"PJRT_DEVICE=CUDA needs {PACKAGE}: install jax-cuda12-pjrt")
        return str(Path(spec.submodule_search_locations[0], LIBRARY))

    def physical_chip_count(self):
        """Processes that torch_xla starts by itself on this host."""
        return int(os.environ.get("GPU_NUM_DEVICES", "0")) or torch.cuda.device_count()

    def configure_single_process(self):
        """A world of one."""
        os.environ.update(LOCAL_RANK="0", RANK="0", LOCAL_WORLD_SIZE="1", WORLD_SIZE="1")

    def configure_multiprocess(self, local_rank, local_world_size):
        """Processes of torch_xla's own spawn, which sets no variables of torchrun."""
        os.environ.setdefault("LOCAL_RANK", str(local_rank))
        os.environ.setdefault("RANK", str(local_rank))
        os.environ.setdefault("LOCAL_WORLD_SIZE", str(local_world_size))
        os.environ.setdefault("WORLD_SIZE", str(local_world_size))
        os.environ.setdefault("MASTER_ADDR", "localhost")

    def client_create_options(self):
        """What XLA's GPU client is made with (xla/pjrt/c/pjrt_c_api_gpu_internal.cc lists the names)."""
        fraction = os.environ.get("PJRT_ALLOCATOR_FRACTION")
        return {
            "platform_name": "cuda",
            "visible_devices": [int(os.environ.get("LOCAL_RANK", "0"))],
            "node_id": int(os.environ.get("RANK", "0")),
            "num_nodes": int(os.environ.get("WORLD_SIZE", "1")),
            # PyTorch's own allocator wants its share of the same GPU.
            "preallocate": os.environ.get("PJRT_ALLOCATOR_PREALLOCATE", "false") == "true",
            **({"memory_fraction": float(fraction)} if fraction else {}),
        }

    def requires_xla_coordinator(self):
        """NCCL's identifiers go through it."""
        return True
