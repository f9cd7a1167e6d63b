"""The command `dlc`: turns errors into one message on stderr and an exit code."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

from dlc.core import interrupts
from dlc.core.errors import DiskError, DlcError, InternalError, Interrupted, UsageError
from dlc.core.text import paint_text, shows_colors


def main(argv: Sequence[str] | None = None) -> int:
    """Run dlc with these arguments (the process's own by default) and return its exit code."""
    interrupts.install_handlers()
    words = sys.argv[1:] if argv is None else argv
    code: int | None = None
    try:
        _check_streams()
        interrupts.keep_awake()
        # Imported here, so that Ctrl-C while it loads is caught too.
        from dlc.cli import run

        code = run(words)
        sys.stdout.flush()
        return code
    except DlcError as error:
        return _report_error(error)
    except KeyboardInterrupt:
        _print_error("dlc: interrupted")
        return Interrupted.exit_code
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _has_reader_left():
            return _end_without_reader(words, code)
        return _report_error(_system_error(error))
    except Exception as error:
        return _report_error(_internal_error(error))


def _report_error(error: DlcError) -> int:
    """Print the error. A stdout that cannot be written is dropped, or Python would report it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stream(sys.stdout)
    is_colored = shows_colors(os.environ, is_terminal=sys.stderr.isatty())
    _print_error(f"{paint_text('dlc:', 'bad') if is_colored else 'dlc:'} {error}")
    if os.environ.get("DLC_DEBUG"):
        traceback.print_exception(error.__cause__ or error)
    return error.exit_code


def _print_error(text: str) -> None:
    """Print on stderr. If that cannot be written, the exit code still says it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop_stream(sys.stderr)


def _end_without_reader(words: Sequence[str], code: int | None) -> int:
    """Return the exit code if the reader of the output, such as head or less, has ended.

    It is the verb's own `code` if that has done its work. Of a verb that only shows something it may have been enough.
    """
    from dlc.cli import only_shows

    if code is not None:
        return code
    if only_shows(words):
        return 0
    _print_error("dlc: interrupted: nobody reads its output any more")
    return Interrupted.exit_code


def _system_error(error: OSError) -> DlcError:
    known = DiskError if error.errno == errno.ENOSPC else DlcError
    failure = known(f"{error.filename or 'output'}: {error.strerror or error}")
    failure.__cause__ = error
    return failure


def _internal_error(error: Exception) -> DlcError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    failure = InternalError(
        f"internal error: {type(error).__name__}: {' '.join(str(error).split())} ({last.filename}:{last.lineno})",
        "report this with the output of the same command under DLC_DEBUG=1",
    )
    failure.__cause__ = error
    return failure


def _check_streams() -> None:
    """Raise UsageError for a closed stdout. Closed streams become /dev/null: else the next file takes their number."""
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        # This takes the lowest number that is free.
        os.open(os.devnull, os.O_RDWR)
        if number:
            setattr(sys, ("stdin", "stdout", "stderr")[number], os.fdopen(number, "w"))
    if 1 in closed:
        raise UsageError("stdout is closed: expected a terminal, a pipe or a file", "use >/dev/null to drop the output")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without UTF-8 gets \u2026, and no error.
        sys.stdout.reconfigure(errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _has_reader_left() -> bool:
    """Tell whether the reader of stdout or stderr has gone, not of another pipe; such a stream is dropped."""
    left = [stream for stream in (sys.stdout, sys.stderr) if _is_broken(stream)]
    for stream in left:
        _drop_stream(stream)
    return bool(left)


def _is_broken(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _drop_stream(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
