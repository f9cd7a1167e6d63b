"""Where things are in the user's sources: for the report, and to find what the script will do later."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import torch

LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__), "/dlc_runtime/", "<frozen")
CREATE_GRAPH = re.compile(r"^[^#\n]*create_graph\s*=\s*True", re.MULTILINE)


def class_name(module: torch.nn.Module) -> str:
    inner = getattr(module, "module", None)
    name = type(module).__name__
    wraps = name in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
    return f"{name}({type(inner).__name__})" if wraps else name


def is_users(file: str) -> bool:
    """Whether a source file is the user's own, neither a package's nor Python's."""
    return bool(file) and not any(part in file for part in LIBRARIES)


def place_of(function: Any) -> tuple[str, int]:
    """File and line of a function, or ("", 0)."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None:
        code = getattr(type(function).__dict__.get("__call__"), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)


def calls_create_graph() -> list[str]:
    """The user's files and lines that ask for a differentiable backward: it may come after the watched steps."""
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    return [place for file in sorted(files) if file.endswith(".py") and is_users(file) for place in create_graphs(file)]


def create_graphs(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read(1 << 20)
    except OSError:
        return []
    return [f"{file}:{text.count(chr(10), 0, match.end()) + 1}" for match in CREATE_GRAPH.finditer(text)]
