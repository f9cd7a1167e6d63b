"""Reads from its folder what XLA has compiled: the name of each program and the shapes of its arguments.

A program is a protocol buffer: its second field holds the program before compiling, with name (1), computations (3)
and shapes (4). What cannot be read has no name and no shapes.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 256 << 20  # of one program that is read
TYPES = {1: "bool", 2: "int8", 4: "int32", 5: "int64", 10: "float16", 11: "float32", 12: "float64", 16: "bfloat16"}


class Program(NamedTuple):
    name: str
    shapes: tuple[str, ...]
    operations: int


class Programs:
    """`private`: each file is deleted when it was read."""

    def __init__(self, folder: str, private: bool) -> None:
        self.folder, self._private = folder, private
        self._changed = -1
        self._seen: set[str] = set()
        self.new()

    def new(self) -> list[Program]:
        """Those that were written since the last call."""
        try:
            changed = os.stat(self.folder).st_mtime_ns if self.folder else self._changed
        except OSError:  # XLA makes the folder
            return []
        if changed == self._changed:
            return []
        self._changed = changed
        names = sorted({name for name in os.listdir(self.folder) if name.endswith(".pb")} - self._seen)
        self._seen.update(names)
        return [self._read(os.path.join(self.folder, name)) for name in names]

    def _read(self, path: str) -> Program:
        try:
            with open(path, "rb") as stream:
                content = stream.read(MOST_BYTES)
            if self._private:
                os.unlink(path)
            return program(content)
        except (OSError, ValueError, IndexError):
            return Program("", (), 0)


def program(content: bytes) -> Program:
    module = next((value for field, value in fields(content) if field == 2 and isinstance(value, bytes)), b"")
    name, operations = "", 0
    shapes: tuple[str, ...] = ()
    for field, value in fields(module):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            name = plain_name(value.decode(errors="replace"))
        elif field == 3:
            operations += sum(1 for inner, _ in fields(value) if inner == 2)
        elif field == 4:
            shapes = tuple(shape(part) for inner, part in fields(value) if inner == 1 and isinstance(part, bytes))
    return Program(name, shapes, operations)


def plain_name(name: str) -> str:
    """`a_inference_step_57__.3` and `__inference_step_57[].3` are `step`; a cluster keeps its number."""
    found = re.match(r"(?:a|_)?_?inference_(.+?)_\d+(?:\[|__|\.|$)", name.lstrip("_"))
    return found[1] if found else re.split(r"\[|__|\.", name)[0]


def shape(content: bytes) -> str:
    """Such as float32[8,64]."""
    kind = 0
    sizes: list[int] = []
    for field, value in fields(content):
        if field == 2 and isinstance(value, int):
            kind = value
        elif field == 3 and isinstance(value, bytes):
            sizes.extend(numbers(value))
        elif field == 3 and isinstance(value, int):
            sizes.append(value)
    return f"{TYPES.get(kind, 'type ' + str(kind))}[{','.join(map(str, sizes))}]"


def numbers(content: bytes) -> Iterator[int]:
    place = 0
    while place < len(content):
        value, place = number(content, place)
        yield value


def number(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protocol buffer."""
    place = 0
    while place < len(content):
        key, place = number(content, place)
        kind = key & 7
        if kind == 0:
            value, place = number(content, place)
            yield key >> 3, value
            continue
        size = 8
        if kind == 2:
            size, place = number(content, place)
        elif kind == 5:
            size = 4
        elif kind != 1:
            raise ValueError(f"no protocol buffer: a field of kind {kind}")
        if place + size > len(content):
            raise ValueError("half a protocol buffer")
        yield key >> 3, content[place : place + size]
        place += size


def difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """The first argument whose shape is another; "" where none is."""
    for place, (before, after) in enumerate(zip(old, new)):
        if before != after:
            return f"argument {place} is {after}, it was {before}"
    return "" if len(old) == len(new) else f"{len(new)} arguments, there were {len(old)}"
