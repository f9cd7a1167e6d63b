"""One MPI rank: takes its own host's environment from a file, then becomes the command that follows.

mpirun carries variables from the leader to every rank, but SM_CURRENT_HOST and its like are each host's own.
Usage: mpi_rank.py ENVIRONMENT.json COMMAND [ARGUMENT...]
"""

import json
import os
import sys

OWN = ("SM_", "CURRENT_HOST")  # of these the host's value wins, of all others what mpirun brought along


def environment(brought: "dict[str, str]", host: "dict[str, str]") -> "dict[str, str]":
    """The rank's environment out of what mpirun brought and what this host's launcher wrote down."""
    own = {name: value for name, value in host.items() if name.startswith(OWN)}
    others = {name: value for name, value in brought.items() if not name.startswith(OWN)}
    return {**host, **others, **own}


def main() -> None:
    """Become the command."""
    path, *command = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        env = environment(dict(os.environ), json.load(file))
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main()
