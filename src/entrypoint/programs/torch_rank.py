#!/usr/bin/python3 -IS
"""One rank below torchrun: its lines get the prefix [host:rank], then it becomes the image's Python.

torchrun starts its ranks with the program that PYTHON_EXEC names, so this file has to be executable.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from launch.supervision.rank_output import redirect


def main() -> None:
    """Become DLC_RANK_PYTHON with the arguments that torchrun gave."""
    python = os.environ.pop("DLC_RANK_PYTHON")
    del os.environ["PYTHON_EXEC"]
    redirect(f"[{os.environ['CURRENT_HOST']}:{os.environ['RANK']}] ")
    os.execv(python, [python, *sys.argv[1:]])


if __name__ == "__main__":
    main()
