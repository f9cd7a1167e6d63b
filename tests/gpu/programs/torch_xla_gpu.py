"""Trains a few steps with torch_xla on a GPU through the CUDA plug-in, and compares with PyTorch on the CPU.

Prints one line of JSON: the device's kind, how many of them the process sees, and the losses on it and on the CPU.
XLA chooses its devices once per process, so that this is a program. The plug-in's folder is found, not imported: it
would import jax.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path

os.environ["PJRT_DEVICE"] = "CUDA"

import torch  # reads the variables
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch_xla.experimental import plugins


class Cuda(plugins.DevicePlugin):
    """One GPU, used by one process."""

    def library_path(self) -> str:
        spec = find_spec("jax_plugins.xla_cuda12")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        return str(Path(next(iter(spec.submodule_search_locations)), "xla_cuda_plugin.so"))


def losses(device: torch.device) -> list[float]:
    """Of ten steps of gradient descent on the same data from the same parameters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)).to(device)
    values = torch.randn(256, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    taken = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (torch.atan2(model(values), torch.ones(1, device=device)) - values.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        taken.append(loss)
    return [float(loss.detach()) for loss in taken]


if "CUDA" not in plugins._plugin_registry:  # this project's images have registered it
    plugins.use_dynamic_plugins()
    plugins.register_plugin("CUDA", Cuda())
device = torch_xla.device()
found = {"kind": xm.xla_device_hw(device), "devices": xr.addressable_runtime_device_count()}
print(json.dumps({**found, "gpu": losses(device), "cpu": losses(torch.device("cpu"))}))
