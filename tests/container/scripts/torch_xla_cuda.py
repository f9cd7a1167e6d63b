"""Registers the CUDA plug-in with torch_xla and asks for its device; prints what XLA answers, a device or an error."""

from importlib.util import find_spec
from pathlib import Path

import torch_xla
from torch_xla.experimental import plugins

folder = Path(next(iter(find_spec("jax_plugins.xla_cuda12").submodule_search_locations)))  # found, not imported: no jax


class Cuda(plugins.DevicePlugin):
    """One GPU, used by one process."""

    def library_path(self) -> str:
        return str(folder / "xla_cuda_plugin.so")


plugins.use_dynamic_plugins()
plugins.register_plugin("CUDA", Cuda())
try:
    print(torch_xla.device())
except RuntimeError as error:
    print(error)
