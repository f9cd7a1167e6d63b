"""Waits until every host is part of the Ray cluster that RAY_ADDRESS names, then becomes the command that follows.

Usage: ray_driver.py SECONDS HOSTS -- COMMAND [ARGUMENT...]
"""

import importlib
import os
import subprocess
import sys
import time

# Between two looks
PAUSE_SECONDS = 0.2
LOOK = "look"


def look(end: float, hosts: int) -> int:
    """Wait as a driver until the cluster is complete. Its process is not the one that becomes the script."""
    ray = importlib.import_module("ray")
    reason: object = "no answer"
    while time.monotonic() < end:
        try:
            if not ray.is_initialized():
                ray.init(log_to_driver=False, logging_level="ERROR")
            here = sum(1 for node in ray.nodes() if node["Alive"])
            if here >= hosts:
                ray.shutdown()
                return 0
            reason = f"{here} of {hosts} hosts have joined"
        except Exception as error:  # whatever Ray raises while the head is not there yet
            reason = error
        time.sleep(PAUSE_SECONDS)
    print(f"dlc: the Ray cluster at {os.environ.get('RAY_ADDRESS')} is not complete: {reason}", file=sys.stderr)
    return os.EX_UNAVAILABLE


def main() -> int:
    """Become the command, or say what is missing."""
    divider = sys.argv.index("--")
    seconds, hosts = sys.argv[1:divider]
    command = sys.argv[divider + 1 :]
    if command == [LOOK]:
        return look(time.monotonic() + float(seconds), int(hosts))
    code = subprocess.call([sys.executable, __file__, seconds, hosts, "--", LOOK])
    if code:
        return code if code > 0 else 128 - code
    os.execvp(command[0], command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
