"""What inductor needs on this machine to compile for the CPU."""

from __future__ import annotations

import functools
import os
import shutil
import sys

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def missing_compiler(modules: list[torch.nn.Module]) -> str:
    """What is missing, or ""."""
    if all(parameter.device.type != "cpu" for module in modules for parameter in module.parameters()):
        return ""
    name = os.environ.get("CXX", "g++")
    return "" if shutil.which(name) else f"there is no C++ compiler here ({name})"


def spare_headers() -> None:
    """Inductor precompiles the headers of code before it looks whether its cache holds that code compiled.

    They take longest of all that it compiles, and lie in the temporary folder, which the next job does not have.
    """
    from torch._inductor import codecache

    original = getattr(codecache, "_precompile_header", None)  # what has none precompiles none
    if original is None or original.__module__ == __name__:
        return

    @functools.wraps(original, assigned=())
    def precompiled_header(*arguments: Any, **named: Any) -> Any:
        source = sys._getframe(1).f_locals.get("main_path")  # of whom asks for the header
        if isinstance(source, str) and os.path.exists(f"{os.path.splitext(source)[0]}.so"):
            return ""  # compiles nothing
        return original(*arguments, **named)

    codecache._precompile_header = precompiled_header
