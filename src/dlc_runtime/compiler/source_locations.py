"""File and line in the user's code, for the report; and lines with create_graph=True. Standard library only."""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    import torch

LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__), "/dlc_runtime/", "<frozen")
# The only library's functions that differentiate a model twice: a compiled one would be refused, or be zero there.
DERIVATIVES = os.path.join("torch", "autograd", "functional.py")
CREATE_GRAPH = re.compile(r"[^#\n]*create_graph\s*=\s*True")


def class_name(module: torch.nn.Module) -> str:
    inner = getattr(module, "module", None)
    name = type(module).__name__
    wraps = name in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
    return f"{name}({type(inner).__name__})" if wraps else name


def is_user_code(file: str) -> bool:
    """Tell whether a file is the user's own, neither a package's nor Python's."""
    return bool(file) and not any(part in file for part in LIBRARIES)


def find_user_line() -> tuple[str, int]:
    """Return file and line of the innermost running code of the user's, or ("", 0)."""
    frame = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def location_of(function: Any) -> tuple[str, int]:
    """Return file and line of a function, or ("", 0)."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None:
        code = getattr(type(function).__dict__.get("__call__"), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)


def find_create_graph_around(thread: int = 0) -> str:
    """Return file and line of create_graph=True in the nearest function that runs, "" if none has it.

    What is called there may be differentiated twice, now or in a later step. `thread`: another one than this.
    """
    frame = sys._current_frames().get(thread) if thread else sys._getframe(1)
    while frame is not None:
        place = find_create_graph_in(frame.f_code)
        if place and place not in seen_create_graph:
            return place
        frame = frame.f_back
    return ""


# Lines that have run: it is known which modules they differentiate.
seen_create_graph: set[str] = set()


def note_create_graph(place: str) -> None:
    """Note that a line has run; a library's can differentiate other modules later."""
    if is_user_code(place):
        seen_create_graph.add(place)


# Key: id of a code, which this keeps alive: hashing a code takes long.
_create_graph: dict[int, tuple[CodeType, str]] = {}


def find_create_graph_in(code: CodeType) -> str:
    """Return file and line of create_graph=True in a function of the user's, or one of torch.autograd.functional.

    Without those defined in it.
    """
    known = _create_graph.get(id(code))
    if known is None:
        known = _create_graph[id(code)] = code, search_create_graph(code) if may_differentiate(code) else ""
    return known[1]


def may_differentiate(code: CodeType) -> bool:
    return is_user_code(code.co_filename) or code.co_filename.endswith(DERIVATIVES)


def search_create_graph(code: CodeType) -> str:
    if not any(isinstance(names, tuple) and "create_graph" in names for names in code.co_consts):
        # No call has an argument of that name.
        return ""
    lines = sorted({line for _, line in dis.findlinestarts(code) if line})
    found = (line for line in lines if CREATE_GRAPH.match(linecache.getline(code.co_filename, line)))
    return next((f"{code.co_filename}:{line}" for line in found), "")
