"""One host below mpirun, but the first: starts Open MPI's daemon when the leader's mpirun asks for it, then stays.

Usage: mpi_host.py SITE.json
"""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from launch.base.errors import LaunchError
from launch.coordination import remote_exec


def main() -> int:
    """Serve until the launcher ends it: the job is over when the leader says so, not when the daemon has gone."""
    try:
        code = remote_exec.ExecServer(remote_exec.read_site(sys.argv[1]), os.environ).serve()
    except LaunchError as error:
        print(f"dlc: {error}", file=sys.stderr)
        return error.exit_code
    if code:
        print(f"dlc: Open MPI's daemon ended with code {code}", file=sys.stderr, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
