"""`python -m dlc_runtime.profile train.py --lr 0.1`: runs an unchanged script and measures what it waits for."""

from __future__ import annotations

import os
import runpy
import sys

from dlc_runtime.profile.settings import SWITCH


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m dlc_runtime.profile SCRIPT [ARGUMENT ...]")
    os.environ[SWITCH] = "1"
    import dlc_runtime.profile.import_hook  # noqa: F401 - importing it is what arms

    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
