"""Files that only this user's processes may read, in a folder that nobody else could have prepared."""

from __future__ import annotations

import contextlib
import os
import stat

from launch.base.errors import CANNOT_CREATE, NO_PERMISSION, LaunchError

REMEDY = "set DLC_RUN_DIR to a folder that does not exist yet, or is this user's own"


def default_folder() -> str:
    """Where private files are kept unless DLC_RUN_DIR says otherwise: /run is root's, and may be read-only."""
    own = f"/tmp/dlc-{os.geteuid()}"  # noqa: S108 - `folder` looks whose it is
    return "/run/dlc" if os.geteuid() == 0 and os.access("/run", os.W_OK) else own


def can_be_made(folder: str) -> bool:
    """Whether this user can make the folder, or write to it where it is there."""
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder.rstrip("/"))
    return os.access(folder or ".", os.W_OK)


def folder(path: str) -> None:
    """Make the folder, with mode 0700. Raises LaunchError where it is a link, or somebody else's."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            os.chmod(path, 0o700)
            return
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE, "cannot be made private", where=path, found=os.strerror(error.errno or 0), remedy=REMEDY
        ) from error
    what = f"a folder of user {found.st_uid}" if stat.S_ISDIR(found.st_mode) else "a link or a file"
    expected = f"a folder of user {os.geteuid()}"
    raise LaunchError(NO_PERMISSION, "not private", where=path, expected=expected, found=what, remedy=REMEDY)


def write(path: str, content: str) -> None:
    """Make the file anew, with mode 0600, in a private folder. What an earlier run left goes; links are not followed.

    Raises LaunchError where it cannot be made.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE, "cannot be written", where=path, found=os.strerror(error.errno or 0), remedy=REMEDY
        ) from error
