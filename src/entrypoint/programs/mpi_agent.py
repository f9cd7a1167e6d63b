"""What mpirun calls instead of ssh: has another host of the job run a command, and ends as that ends.

mpirun's calling convention, plm_rsh_agent: mpi_agent.py [OPTION...] HOST COMMAND... The file DLC_MPI_SITE tells how the
hosts are reached.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from launch.base.errors import LaunchError
from launch.coordination import remote_exec


def main() -> int:
    """Run it there."""
    try:
        site = remote_exec.read_site(os.environ["DLC_MPI_SITE"])
        host, command = remote_exec.split_command(sys.argv[1:], site.hosts)
        return remote_exec.run_on_host(site, host, command)
    except LaunchError as error:
        # failure_cause.py looks for it
        print(f"dlc: mpirun: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
