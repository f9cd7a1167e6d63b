"""What inductor needs on this machine to compile for the CPU."""

from __future__ import annotations

import os
import shutil

import torch


def missing_compiler(modules: list[torch.nn.Module]) -> str:
    """What is missing, or ""."""
    if all(parameter.device.type != "cpu" for module in modules for parameter in module.parameters()):
        return ""
    name = os.environ.get("CXX", "g++")
    return "" if shutil.which(name) else f"there is no C++ compiler here ({name})"
