"""Waits until a server listens, then becomes the command that follows.

Usage: when_listening.py HOST PORT SECONDS COMMAND [ARGUMENT...]
"""

import os
import socket
import sys
import time

PAUSE = 0.1  # seconds between two attempts
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


def wait(host: str, port: int, seconds: float) -> bool:
    """Whether somebody listens on the port before the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError:
            time.sleep(PAUSE)
        else:
            return True
    return False


def main() -> int:
    """Become the command, or say who did not answer."""
    host, port, seconds, *command = sys.argv[1:]
    if wait(host, int(port), float(seconds)):
        os.execvp(command[0], command)
    print(f"dlc: nobody listens on {host}:{port} after {seconds} s", file=sys.stderr)
    return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
