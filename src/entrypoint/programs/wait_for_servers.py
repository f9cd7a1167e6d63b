"""Waits until servers listen, then becomes the command that follows, if any.

Usage: wait_for_servers.py SECONDS HOST PORT [HOST PORT...] -- [COMMAND [ARGUMENT...]]
"""

import os
import socket
import sys
import time

# Between two attempts
PAUSE_SECONDS = 0.1


def wait(host: str, port: int, end: float) -> bool:
    """Return whether somebody listens on the port before `end`, a time of the monotonic clock."""
    while time.monotonic() < end:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError:
            time.sleep(PAUSE_SECONDS)
        else:
            return True
    return False


def main() -> int:
    """Become the command, or say who does not answer."""
    divider = sys.argv.index("--")
    seconds, *addresses = sys.argv[1:divider]
    command = sys.argv[divider + 1 :]
    end = time.monotonic() + float(seconds)
    for host, port in zip(addresses[::2], addresses[1::2]):
        if not wait(host, int(port), end):
            print(f"dlc: nobody listens on {host}, port {port}, after {seconds} s", file=sys.stderr)
            return os.EX_UNAVAILABLE
    if command:
        os.execvp(command[0], command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
