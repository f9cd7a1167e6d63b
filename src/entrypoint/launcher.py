"""Entrypoint of the training images: `launcher.py train` runs the job, any other command is executed as it is."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from launch import signals

# If one of these is closed, the next pipe that is opened would get its number
for fd in range(3):
    try:
        os.fstat(fd)
    except OSError:
        os.open(os.devnull, os.O_RDWR)

# Before anything else is imported: from here on a SIGTERM is not lost
signals.arm()


def run() -> int:
    """Import the rest only now: the handler must not wait for it."""
    from launch.main import main

    return main(sys.argv[1:], os.environ)


if __name__ == "__main__":
    exit_code = run()
    # Python takes its handlers away while it ends: a late signal would change the exit code
    signals.ignore()
    sys.exit(exit_code)
