"""Shows a build, or other work that takes long, on stderr: finished steps, and on a terminal the running ones.

Without a terminal, or with one that cannot move its cursor, running steps are printed every PERIOD seconds. A failure
to print never ends a build: if the reader of the output is gone, nothing more is printed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from dlc.image_build.buildkit_log import Running, Step

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_COMMANDS = ("RUN", "COPY", "ADD", "exporting")
COPIES = ("COPY", "ADD")
SHOWN_WIDTH = 80
PERIOD = 30.0
# A step that ends sooner is not shown while it runs.
SHORT_SECONDS = 1.0
# On narrower terminals the target's name is left out.
NARROW_COLUMNS = 80
REFRESH_PER_SECOND = 2


class Display:
    """Plain lines on a stream. A context manager, because it has a thread."""

    def __init__(self, stream: TextIO, period: float = PERIOD) -> None:
        self._stream = stream
        self._period = period
        self._running: Sequence[Running] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running = ()
        self._stop()

    def running(self, steps: Sequence[Running]) -> None:
        """Set the steps that run now."""
        self._running = steps

    def finished(self, step: Step) -> None:
        """Print a line for a finished step, unless it was cached or another build had begun it."""
        is_short_copy = step.command.startswith(COPIES) and step.seconds < SHORT_SECONDS
        if not (step.cached or step.elsewhere) and step.command.startswith(SHOWN_COMMANDS) and not is_short_copy:
            self._line(_format_finished(step))

    def say(self, line: str) -> None:
        """Print a line. A reader that is gone ends nothing."""
        self._line(f"  {line}")

    @contextmanager
    def during(self, name: str, what: str) -> Iterator[Callable[[str], None]]:
        """Show the block as a step of dlc's own, if it takes long. The block gets a function that says what it does."""
        start = time.monotonic()

        def say(now: str) -> None:
            self._running = (Running(name, now, start),)

        say(what)
        try:
            yield say
        finally:
            self._running = ()
        if (seconds := time.monotonic() - start) >= SHORT_SECONDS:
            self._line(_format_finished(Step(name, what, seconds, cached=False)))

    def _start(self) -> None:
        self._thread.start()

    def _stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _line(self, text: str) -> None:
        try:
            print(text, file=self._stream, flush=True)
        except (OSError, ValueError):
            self._mute()

    def _mute(self) -> None:
        """Drop all further output: the reader is gone."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def _count(self) -> None:
        while not self._over.wait(self._period):
            for step in _longer_than(self._period, self._running):
                seconds = time.monotonic() - step.started
                self._line(f"  {seconds:6.0f} s so far  {step.name}  {shorten_command(step.command)}")


class Screen(Display):
    """A terminal: the running steps are shown below the lines of the finished ones."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(stream)
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console, get_renderable=self._render, refresh_per_second=REFRESH_PER_SECOND, transient=True,
            # What goes into a file or a pipe stays there.
            redirect_stdout=sys.stdout.isatty(),
        )  # fmt: skip

    def _start(self) -> None:
        self._live.start()
        # A kill would leave the terminal without a cursor.
        self._console.show_cursor(True)

    def _stop(self) -> None:
        self._live.stop()

    def _line(self, text: str) -> None:
        try:
            self._console.print(text, soft_wrap=True)
        except (OSError, ValueError):
            self._mute()

    def _render(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        rows = [format_running(step, now, self._console.width) for step in _longer_than(SHORT_SECONDS, self._running)]
        return Text("\n".join(rows), style="bold", no_wrap=True, overflow="crop")


def open_display(*, plain: bool, stream: TextIO, environment: Mapping[str, str]) -> Display:
    """Open the display for a stream: plain lines if `plain` is true, in CI, and without a terminal."""
    wants_lines = any(environment.get(name) for name in ("CI", "NO_COLOR")) or environment.get("TERM", "dumb") == "dumb"
    return Display(stream) if plain or wants_lines or not stream.isatty() else Screen(stream)


def format_running(step: Running, now: float, width: int) -> str:
    """Format a running step as one line of a terminal that has `width` columns."""
    name = step.name.partition(" ")[2] if width < NARROW_COLUMNS else ""
    text = f"  {now - step.started:6.0f} s  {name or step.name}  {shorten_command(step.command)}"
    # Three columns stay free for the ^C that a terminal prints.
    room = max(width - 3, 0)
    return text if len(text) <= room else text[: max(room - 3, 0)] + "..."[:room]


def shorten_command(command: str) -> str:
    """Return a RUN line without its options, cut to SHOWN_WIDTH."""
    text = " ".join(word for word in command.split() if not word.startswith("--"))
    return text if len(text) <= SHOWN_WIDTH else text[: SHOWN_WIDTH - 3] + "..."


def _format_finished(step: Step) -> str:
    return f"  {step.seconds:6.1f} s  {step.name}  {shorten_command(step.command)}"


def _longer_than(seconds: float, steps: Sequence[Running]) -> list[Running]:
    now = time.monotonic()
    return [step for step in steps if now - step.started >= seconds]
