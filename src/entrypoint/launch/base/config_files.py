"""Reads one JSON object from a file that may be absent, broken or hostile."""

from __future__ import annotations

import json
import os

from launch.base.errors import DATA, NO_INPUT, LaunchError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# A job's real files are a few kilobytes (at most 100 hyperparameters of 2500 characters, 1000 hosts); execve takes no
# variable above 128 KiB, so a larger file could not be handed on anyway.
LARGEST = 4 * 1024 * 1024  # bytes


def read_object(path: str) -> dict[str, Any] | None:
    """The JSON object in `path`, or None where there is no such file.

    Raises LaunchError: unreadable, empty, too large, not JSON, nested too deeply, not an object.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LaunchError(
            NO_INPUT, "cannot be read", where=path, expected="a readable file", found=os.strerror(error.errno or 0)
        ) from error
    if len(content) > LARGEST:
        raise LaunchError(
            DATA, "too large", where=path, expected=f"at most {LARGEST} bytes of JSON", found="a larger file"
        )
    if not content.strip():
        raise LaunchError(DATA, "not JSON", where=path, expected="a JSON object", found="an empty file")
    return _parse(path, content)


def _parse(path: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise LaunchError(
            DATA, "nested too deeply", where=path, expected="a JSON object", found="deep nesting"
        ) from error
    except ValueError as error:
        raise LaunchError(DATA, "not JSON", where=path, expected="a JSON object", found=str(error)) from error
    if not isinstance(value, dict):
        raise LaunchError(DATA, "wrong shape", where=path, expected="a JSON object", found=shown(value))
    return value


def require_text(path: str, key: str, value: object) -> str:
    """`value` as a text that can stand in a variable or an argument: no NUL byte, nothing that is not UTF-8."""
    if not isinstance(value, str):
        raise LaunchError(DATA, key, where=path, expected="a string", found=shown(value))
    if not is_passable(value):
        raise LaunchError(
            DATA, key, where=path, expected="text without NUL bytes that UTF-8 can carry", found=shown(value)
        )
    return value


def is_passable(text: str) -> bool:
    """Whether `text` can be an argument or the value of a variable of a process."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can spell it, UTF-8 cannot
        return False
    return True
