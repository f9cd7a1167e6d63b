"""The plug-in as torch_xla asks for it, through the entry point `torch_xla.plugins` when PJRT_DEVICE is CUDA.

Not tried on a GPU yet; without one it ends with "no visible devices".
"""

import importlib.util
import os
from pathlib import Path

import torch
from torch_xla.experimental.plugins import DevicePlugin

from dlc_xla_cuda import options

PACKAGE, LIBRARY = "jax_plugins.xla_cuda12", "xla_cuda_plugin.so"


class CudaPlugin(DevicePlugin):
    """A GPU for each process of a host, or all for one; processes meet through XLA's coordinator at MASTER_ADDR."""

    def library_path(self):
        """Path of the plug-in."""
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError(f"PJRT_DEVICE=CUDA needs {PACKAGE}: install jax-cuda12-pjrt")
        return str(Path(spec.submodule_search_locations[0], LIBRARY))

    def physical_chip_count(self):
        """Processes that torch_xla starts by itself on this host; at least one, which then says what it lacks."""
        return int(os.environ.get("GPU_NUM_DEVICES") or 0) or torch.cuda.device_count() or 1

    def configure_single_process(self):
        """Nothing: PJRT_LOCAL_PROCESS_COUNT is 1 by now. The ranks are torchrun's, which may know of other hosts."""

    def client_create_options(self):
        """What XLA's GPU client is made with."""
        return options.client_options(os.environ)

    def requires_xla_coordinator(self):
        """NCCL's identifiers go through it; a process that is alone needs none, and no port for one."""
        return options.world(os.environ).size > 1
