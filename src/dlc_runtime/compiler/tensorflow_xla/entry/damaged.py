"""Removes half programs from the cache: what XLA cannot read to its end looks to Keras like the end of the data."""

from __future__ import annotations

import os

from dlc_runtime.compiler.base.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO


def remove(folder: str, warnings: list[Any]) -> bool:
    """Returns whether the folder can be used."""
    damaged = [path for path in files(folder) if not is_whole(path)]
    if not damaged:
        return True
    try:
        for path in damaged:
            os.unlink(path)
        text, usable = f"the cache {folder} held {len(damaged)} damaged programs: they are compiled anew", True
    except OSError as fault:
        text, usable = f"the cache {folder} holds damaged programs: {fault}. This job compiles without it", False
    warnings.append(text)
    say(text)
    return usable


def files(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".pb")]
    except OSError:
        return []


def is_whole(path: str) -> bool:
    """Whether its parts (a protocol buffer's fields, each behind its size) end where the file ends."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as stream:
            while stream.tell() < size:
                number(stream)
                stream.seek(number(stream), os.SEEK_CUR)
            return size > 0 and stream.tell() == size
    except FileNotFoundError:
        return True  # another job has removed it
    except (OSError, ValueError):
        return False


def number(stream: BinaryIO) -> int:
    value = shift = 0
    while shift < 64:
        byte = stream.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return value
    raise ValueError("no number")
