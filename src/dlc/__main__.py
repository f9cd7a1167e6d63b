"""The command: errors become one message on stderr and their exit code; everything inside raises."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dlc.cli import run
from dlc.errors import DlcError, Interrupted


def main(argv: Sequence[str] | None = None) -> int:
    """Run dlc with these arguments (the process's own by default) and return its exit code."""
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
        # The reader (head, less) had enough. Python would complain again while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
