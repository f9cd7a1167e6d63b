"""Runs `ray start` in the foreground. What it says goes to a file, and to stderr if it ends with an error.

Usage: ray_node.py FOLDER OPTION...      FOLDER: for Ray's sessions and logs, in a folder that is this user's alone
"""

import os
import shutil
import signal
import subprocess
import sys

LAST_LINES = 20
MISSING = "Ray is not installed: put ray into requirements.txt, or build the image with `--set extras=[ray]`"


def main() -> int:
    """Stay while the node runs; its exit code."""
    folder, *options = sys.argv[1:]
    if shutil.which("ray") is None:
        print(f"dlc: {MISSING}", file=sys.stderr)
        return os.EX_CONFIG
    os.makedirs(folder, mode=0o700, exist_ok=True)
    log = f"{folder}/start.log"
    command = ["ray", "start", "--block", f"--temp-dir={folder}", *options]
    with open(log, "wb") as out:
        node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    # On SIGTERM Ray waits for the head, which may be gone, for most of a minute. The kernel ends its daemons.
    signal.signal(signal.SIGTERM, lambda *_: node.kill())
    code = node.wait()
    if code > 0:
        with open(log, encoding="utf-8", errors="replace") as said:
            sys.stderr.write("".join(said.readlines()[-LAST_LINES:]))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
