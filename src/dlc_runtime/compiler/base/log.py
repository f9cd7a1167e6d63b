"""Lines of the compiler runtime in the job's log. A log that cannot be written changes nothing else."""

from __future__ import annotations

import sys

PREFIX = "dlc compiler: "


def say(text: str) -> None:
    try:
        sys.stderr.write(PREFIX + text.rstrip().replace("\n", "\n" + PREFIX) + "\n")
        sys.stderr.flush()
    except Exception:  # noqa: S110 - nowhere is left to say it
        pass
