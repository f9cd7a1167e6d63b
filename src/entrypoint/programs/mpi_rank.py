"""One MPI rank: runs the command as its child, with its own host's environment and the prefix [host:rank].

mpirun carries variables from the leader to every rank, but SM_CURRENT_HOST and its like are each host's own.
Usage: mpi_rank.py ENVIRONMENT.json [--as-is] COMMAND [ARGUMENT...]
--as-is: mpirun itself writes the ranks' output somewhere, so it is to get text.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from launch.base.paths import RANK_FOLDER
from launch.supervision import rank_wrapper

# For what it calls instead of ssh
MPIRUNS = "DLC_MPI_SITE"
# Of these the host's value wins, of all others what mpirun brought along
OWN = ("SM_", "CURRENT_HOST")


def environment(brought: "dict[str, str]", host: "dict[str, str]") -> "dict[str, str]":
    """Make the rank's environment out of what mpirun brought and what this host's launcher wrote down."""
    own = {name: value for name, value in host.items() if name.startswith(OWN)}
    others = {name: value for name, value in brought.items() if not name.startswith((*OWN, MPIRUNS))}
    return {**host, **others, **own}


def main() -> None:
    """Run the command."""
    path, *command = sys.argv[1:]
    as_is = command[0] == "--as-is"
    with open(path, encoding="utf-8") as file:
        env = environment(dict(os.environ), json.load(file))
    folder = os.path.join(os.path.dirname(path), RANK_FOLDER)
    rank = env.get("OMPI_COMM_WORLD_RANK") or env.get("PMIX_RANK", "0")
    rank_wrapper.run_rank(command[as_is:], env, env["CURRENT_HOST"], rank, folder, in_packets=not as_is)


if __name__ == "__main__":
    main()
