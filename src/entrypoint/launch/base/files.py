"""Reads JSON objects from files that may be hostile, and writes files that only this user may read.

Imports errors only.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from launch.base.errors import CANNOT_CREATE, DATA, NO_INPUT, NO_PERMISSION, LaunchError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# A job's real files are a few kilobytes (at most 100 hyperparameters of 2500 characters, 1000 hosts); execve takes no
# variable above 128 KiB, so a larger file could not be handed on anyway.
LARGEST_OBJECT_BYTES = 4 * 1024 * 1024


def read_object(path: str) -> dict[str, Any] | None:
    """Return the JSON object in `path`, or None if there is no such file.

    Raises LaunchError: unreadable, empty, too large, not JSON, nested too deeply, not an object.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_OBJECT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LaunchError(
            NO_INPUT, "cannot be read", where=path, expected="a readable file", found=os.strerror(error.errno or 0)
        ) from error
    if len(content) > LARGEST_OBJECT_BYTES:
        raise LaunchError(
            DATA,
            "too large",
            where=path,
            expected=f"at most {LARGEST_OBJECT_BYTES} bytes of JSON",
            found="a larger file",
        )
    if not content.strip():
        raise LaunchError(DATA, "not JSON", where=path, expected="a JSON object", found="an empty file")
    return _parse_object(path, content)


def _parse_object(path: str, content: bytes) -> dict[str, Any]:
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
    """Return `value` if it is a text that a variable or an argument can hold: UTF-8 without a NUL byte."""
    if not isinstance(value, str):
        raise LaunchError(DATA, key, where=path, expected="a string", found=shown(value))
    if not is_passable(value):
        raise LaunchError(
            DATA, key, where=path, expected="text without NUL bytes that UTF-8 can carry", found=shown(value)
        )
    return value


def is_passable(text: str) -> bool:
    """Return whether `text` can be an argument or the value of a variable of a process."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can spell it, UTF-8 cannot
        return False
    return True


PRIVATE_REMEDY = "set DLC_RUN_DIR to a folder that does not exist yet, or is this user's own"


def default_private_folder() -> str:
    """Return the folder of private files unless DLC_RUN_DIR names one: /run is root's, and may be read-only."""
    own = f"/tmp/dlc-{os.geteuid()}"  # noqa: S108 - `folder` looks whose it is
    return "/run/dlc" if os.geteuid() == 0 and os.access("/run", os.W_OK) else own


def can_make_folder(folder: str) -> bool:
    """Return whether this user can make the folder, or write to it if it is there."""
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder.rstrip("/"))
    return os.access(folder or ".", os.W_OK)


def make_private_folder(path: str) -> None:
    """Make the folder, with mode 0700. Raises LaunchError if it is a link, or somebody else's."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            os.chmod(path, 0o700)
            return
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE,
            "cannot be made private",
            where=path,
            found=os.strerror(error.errno or 0),
            remedy=PRIVATE_REMEDY,
        ) from error
    what = f"a folder of user {found.st_uid}" if stat.S_ISDIR(found.st_mode) else "a link or a file"
    expected = f"a folder of user {os.geteuid()}"
    raise LaunchError(NO_PERMISSION, "not private", where=path, expected=expected, found=what, remedy=PRIVATE_REMEDY)


def write_private_file(path: str, content: str) -> None:
    """Make the file anew, with mode 0600, in a private folder. What an earlier run left goes; links are not followed.

    Raises LaunchError if it cannot be made.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE, "cannot be written", where=path, found=os.strerror(error.errno or 0), remedy=PRIVATE_REMEDY
        ) from error


def package_folders(venv: str) -> list[str]:
    """Return where a virtual environment keeps its packages; [] if there is no such environment."""
    try:
        pythons = sorted(os.listdir(f"{venv}/lib"))
    except OSError:
        return []
    return [folder for name in pythons if os.path.isdir(folder := f"{venv}/lib/{name}/site-packages")]
