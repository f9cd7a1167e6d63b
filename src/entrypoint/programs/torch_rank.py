#!/usr/bin/python3 -IS
"""One rank below torchrun: runs the image's Python as its child, whose lines get the prefix [host:rank].

torchrun starts its ranks with the program that PYTHON_EXEC names, so this file has to be executable.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from launch.supervision import rank_wrapper


def main() -> None:
    """Run DLC_RANK_PYTHON with the arguments that torchrun gave."""
    env = dict(os.environ)
    python = env.pop("DLC_RANK_PYTHON")
    del env["PYTHON_EXEC"]
    folder = env.pop("DLC_RANK_FOLDER", "")
    if env.pop("DLC_RANK_QUIET", ""):
        del env["TORCH_CPP_LOG_LEVEL"]
    rank_wrapper.run_rank([python, *sys.argv[1:]], env, env["CURRENT_HOST"], env["RANK"], folder)


if __name__ == "__main__":
    main()
