"""The processes below this one as they are now, with what tells the main ones from others."""

from __future__ import annotations

import os
import signal

from launch.supervision import descendants
from launch.supervision.mains import SHELLS, Process


def take() -> list[Process]:
    """Every descendant, parents before children."""
    return [_process(pid) for pid in descendants.descendants()]


def _process(pid: int) -> Process:
    words = descendants.command(pid)
    masks = descendants.signal_masks(pid)
    is_shell = bool(words) and os.path.basename(words[0]).lstrip("-") in SHELLS
    # bash with a trap for EXIT catches all that would end it, SIGXCPU too; one with a trap for SIGTERM that alone.
    catches = [descendants.has_signal(masks, "SigCgt", signum) for signum in (signal.SIGTERM, signal.SIGXCPU)]
    return Process(
        pid,
        descendants.parent(pid),
        words,
        reads=_pipe(pid, 0),
        writes=tuple(filter(None, (_pipe(pid, 1), _pipe(pid, 2)))),
        traps_stop=is_shell and catches == [True, False],
        # A shell without job control starts `command &` with SIGINT ignored.
        in_background=descendants.has_signal(masks, "SigIgn", signal.SIGINT),
    )


def _pipe(pid: int, fd: int) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""
    return target if target.startswith("pipe:") else ""
