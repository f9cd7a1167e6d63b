"""The command: errors become one message on stderr and their exit code; everything inside raises."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from dlc.cli import run
from dlc.core.errors import DiskError, DlcError, Interrupted


def main(argv: Sequence[str] | None = None) -> int:
    """Run dlc with these arguments (the process's own by default) and return its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what Ctrl-C cleans up, it does too
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except DlcError as error:
        print(f"dlc: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("dlc: interrupted", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        _forget_stdout()  # the reader (head, less) had enough
        return 0
    except OSError as error:
        _forget_stdout()
        print(f"dlc: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return DiskError.exit_code if error.errno == errno.ENOSPC else DlcError.exit_code


def _forget_stdout() -> None:
    """Python would fail again, and aloud, when it flushes stdout at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
