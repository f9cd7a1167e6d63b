"""Starts one process: its program found on its own PATH, its folder, its session, its output into pipes."""

from __future__ import annotations

import errno
import os

from launch import signals

TYPE_CHECKING = False  # typing's own costs 2 ms at start
if TYPE_CHECKING:
    from launch.base.process_spec import ProcessSpec


def spawn(spec: ProcessSpec, stdout: int, stderr: int) -> int:
    """Start a process in a session of its own, with nothing to read on stdin; its pid.

    Raises OSError (program or working directory missing, not executable) and ValueError (a NUL in an argument). By
    posix_spawn, for the subprocess module takes 2 ms to import; that knows no working directory, so ours is changed
    for the moment (no other thread of the launcher uses it).
    """
    here = _here()
    try:
        os.chdir(spec.cwd)
        return os.posix_spawn(
            _program(spec.argv[0], spec.env.get("PATH", os.defpath)),
            spec.argv,
            spec.env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigdef=signals.IGNORED_BY_PYTHON,
        )
    finally:
        if here is not None:
            os.fchdir(here)
            os.close(here)


def _here() -> int | None:
    """The working directory, to come back to; None where this user may not enter it, as after a change of users."""
    try:
        return os.open(".", os.O_PATH | os.O_DIRECTORY)
    except PermissionError:
        return None


def _program(name: str, path: str) -> str:
    """The file to execute, as a shell with this PATH finds it."""
    if "/" in name:
        return name
    candidates = [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
