"""`python -m dlc_lint script.py...`: the linter without the rest of dlc, for images."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from dlc_lint import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run it with these arguments (the process's own by default)."""
    parser = argparse.ArgumentParser("python -m dlc_lint", description=__doc__, allow_abbrev=False)
    command.add_arguments(parser)
    args = parser.parse_args(argv)
    if importlib.util.find_spec("libcst") is None:
        print("dlc_lint: libcst is not installed\n  remedy: pip install libcst", file=sys.stderr)
        return command.NO_LIBCST
    result = command.run(args)
    for error in result.errors:
        print(f"dlc_lint: {error}", file=sys.stderr)
    return command.exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
