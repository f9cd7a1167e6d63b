"""`dlc exec`: runs a command, or a shell, in the container of a host of a job that runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from dlc.cli.run_job import find_running_engine
from dlc.core.errors import UsageError
from dlc.jobs.run.known_jobs import find_containers

HELP = "run a command in the container of a host of a job, or a shell"
EXAMPLE = "dlc exec 20261120-093000-0a1b2c algo-2 -- py-spy dump --pid 1"
# The command.
PASSES_ON = True
SHELL = ("bash",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB, HOST; the command is behind a --."""
    parser.usage = "%(prog)s [-h] JOB [HOST] [-- COMMAND...]"
    parser.add_argument("job", metavar="JOB", help="a job of dlc ps")
    parser.add_argument("host", nargs="?", default="", metavar="HOST", help="a host of it (default: the first)")


def run(args: argparse.Namespace) -> int:
    """Become the docker client that runs the command; its exit code is the command's."""
    engine = find_running_engine()
    found = find_containers(engine)
    host = choose_host(args.job, args.host, found)
    engine.become_client("exec", *terminal_options(), f"dlc-{args.job}-{host}", *(args.arguments or SHELL))


def terminal_options() -> tuple[str, ...]:
    """Return the client's options: input reaches the command, and a terminal if somebody types on one."""
    return ("--interactive", *(("--tty",) if sys.stdin.isatty() and sys.stdout.isatty() else ()))


def choose_host(job: str, host: str, found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the host that is meant. Raises UsageError if the job, or that host of it, does not run."""
    if job not in found:
        raise UsageError(f"{job}: expected a job that runs, found {', '.join(found) or 'none'}", "dlc ps")
    # algo-2 before algo-10
    names = sorted(found[job], key=lambda name: (len(name), name))
    chosen = host or names[0]
    if found[job].get(chosen) != "running":
        states = ", ".join(f"{name} ({found[job][name]})" for name in names)
        raise UsageError(f"{chosen}: expected a host of {job} that runs, found {states}", f"dlc exec {job} HOST -- ...")
    return chosen
