"""pip without what nobody reads: "already satisfied" lines stay out; its reason is on stderr when it fails.

pip explains a conflict on stdout, where the log's last lines of stderr do not have it. Run with the image's Python.
Usage: pip_install.py PIP-ARGUMENT...
"""

import contextlib
import fcntl
import importlib.metadata
import os
import runpy
import signal
import sys
from typing import TextIO

# EX_UNAVAILABLE of sysexits.h: what the code needs cannot be had
UNAVAILABLE = 69
NOISE = ("Requirement already satisfied:", "Looking in indexes:", "Looking in links:")
PROGRESS = ("Collecting ", "Downloading ", "Using cached ", "Processing ", "Preparing ", "Installing ", "Getting ",
            "Building ", "Created wheel ", "Stored in ", "Obtaining ", "Successfully ", "INFO: ")  # fmt: skip
# Of a reason
MOST_LINES = 15

# pip turns the exception into an exit code like any other
_interrupts: list[int] = []


class Output:
    """A stdout that passes whole lines on, without the noise, and remembers the last that are no progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._unfinished = ""
        self.reason: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def end(self) -> None:
        """Pass on what came after the last newline, and all that the stream holds back."""
        if self._unfinished:
            self._line(self._unfinished)
        self._unfinished = ""
        self._stream.flush()

    def _line(self, line: str) -> None:
        said = line.strip()
        if said.startswith(NOISE):
            return
        self._stream.write(f"{line}\n")
        if said and not said.startswith(PROGRESS):
            self.reason = [*self.reason, line][-MOST_LINES:]


def _take_turns() -> None:
    """Wait for another pip of this environment: if each rank has a launcher, they all install at once."""
    with contextlib.suppress(OSError):
        # Given back when this process ends
        fcntl.flock(os.open(sys.prefix, os.O_RDONLY), fcntl.LOCK_EX)


def _interrupt(signum: int, _frame: object) -> None:
    _interrupts.append(signum)
    raise KeyboardInterrupt


def _frameworks() -> dict[str, str]:
    found = {}
    for name in ("torch", "tensorflow"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _say_what_is_replaced(before: dict[str, str]) -> None:
    for name, now in _frameworks().items():
        if now != (was := before.get(name, now)):
            words = (
                f"{name} {was} is replaced by {now}: what the image has compiled for it, such as Horovod, may not load"
            )
            print(f"dlc: {words}", file=sys.stderr)


def main() -> int:
    """Run pip; tell its reason and return EX_UNAVAILABLE if it fails. A SIGINT ends us too, when pip has cleaned up."""
    output = Output(sys.stdout)
    sys.stdout = output
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    code: object = 0
    before: dict[str, str] = {}
    try:
        _take_turns()
        before = _frameworks()
        # This program's folder: nothing in it is for pip
        sys.path.pop(0)
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt as end:
        code = end
    output.end()
    if code and _interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if not code:
        _say_what_is_replaced(before)
        return 0
    for line in output.reason:
        print(line, file=sys.stderr)
    return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
