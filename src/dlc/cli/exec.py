"""`dlc exec`: runs a command, or a shell, in the container of a host of a job that runs: as `docker exec` does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

from dlc.cli.shared.arguments import SHELL, terminal_options
from dlc.cli.shared.own_words import MARK, require_command
from dlc.core.errors import UsageError
from dlc.engine.connection import find_running_engine
from dlc.places.local.claims import claims_folder
from dlc.places.local.known_jobs import absence_error, find_containers

HELP = "run a command in the container of a host of a job, or a shell"
EXAMPLE = "dlc exec 20261120-093000-0a1b2c algo-2 py-spy dump --pid 1"
BEHIND = "dlc exec JOB [HOST] [COMMAND...]; a command that is called as a host is stands behind a --"
# The hosts of every job are called so, and no command is: a word behind JOB is read in one way, whatever the job has.
HOST = re.compile(r"algo-[0-9]+")
# Meant for a host, and nobody's command.
NEARLY_HOST = re.compile(r"(algo|host)?[-_]?[0-9]+", re.IGNORECASE)


def ends_own_words(found: Sequence[str]) -> bool:
    """Tell that all behind the job is a host and a command."""
    return len(found) == 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB; what is behind it is passed on."""
    parser.usage = "%(prog)s [-h] JOB [HOST] [COMMAND...]"
    parser.add_argument("job", metavar="JOB", help="a job of dlc ps")
    parser.description = (
        f"{HELP}\n\nHOST is algo-1, algo-2, ... (default: the first); COMMAND has its own options (default: a shell)."
    )


def run(args: argparse.Namespace) -> int:
    """Become the docker client that runs the command; its exit code is the command's."""
    engine = find_running_engine()
    found = find_containers(engine)
    if args.job not in found:
        raise absence_error(claims_folder(), args.job)
    host, command = split_host(args.arguments or (), is_marked=args.is_marked)
    require_command("dlc exec JOB", command, BEHIND, is_marked=args.is_marked)
    host = choose_host(args.job, host, found[args.job])
    engine.become_client("exec", *terminal_options(), f"dlc-{args.job}-{host}", *(command or SHELL))


def split_host(words: Sequence[str], *, is_marked: bool) -> tuple[str, Sequence[str]]:
    """Return the host, empty if none is named, and the command; behind a -- all is the command.

    Raises UsageError for a word that can only be a misspelt host.
    """
    if is_marked or not words:
        return "", words
    first, rest = words[0], words[1:]
    if HOST.fullmatch(first):
        return first, rest[1:] if rest[:1] == [MARK] else rest
    if NEARLY_HOST.fullmatch(first):
        raise UsageError(f"{first}: expected a host, such as algo-1, or a command", BEHIND)
    return "", words


def choose_host(job: str, host: str, states: Mapping[str, str]) -> str:
    """Return the host that is meant. Raises UsageError if the job has none of that name, or that host has ended."""
    # algo-2 before algo-10
    names = sorted(states, key=lambda name: (len(name), name))
    chosen = host or names[0]
    if states.get(chosen) != "running":
        said = ", ".join(f"{name} ({states[name]})" for name in names)
        raise UsageError(f"{chosen}: expected a host of {job} that runs, found {said}", f"dlc exec {job} HOST COMMAND")
    return chosen
