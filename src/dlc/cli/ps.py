"""`dlc ps`: the jobs that run on this machine, and what the engine says of their hosts."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from dlc.cli.shared.arguments import add_json, print_json, print_text, terminal_columns
from dlc.cli.shared.placed_jobs import add_place
from dlc.core.errors import EngineError, ProcessError
from dlc.core.text import format_table
from dlc.engine.connection import find_engine
from dlc.engine.docker_client import Engine
from dlc.places.local.claims import claims_folder
from dlc.places.local.known_jobs import ENDED, FOREIGN, KnownJob, list_jobs, read_ended
from dlc.places.place import LOCAL, load_place, read_place_options

HELP = "list your jobs that run on this machine, in the background too, or at a place"
EXAMPLE = "dlc ps --json"
HEADS = ("JOB", "STATE", "HOSTS", "SINCE", "PROGRESS", "IMAGE")
PLACED_HEADS = ("ID", "JOB", "STATE", "HOSTS", "SINCE")
# Seconds of each unit, the largest first.
UNITS = {"d": 86400, "h": 3600, "min": 60}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --all, --json, --to, --with."""
    parser.add_argument("--all", action="store_true", help="also yours that have ended, and those of others")
    add_json(parser)
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each job."""
    if args.to not in ("", LOCAL):
        return _print_placed(args)
    engine = _find_engine()
    try:
        jobs = list_jobs(claims_folder(), engine)
    except (EngineError, ProcessError) as error:
        _say_without_hosts(error)
        jobs = list_jobs(claims_folder(), None)
    others = sum(job.state == FOREIGN for job in jobs)
    if args.all:
        jobs += read_ended(claims_folder())
    else:
        jobs = [job for job in jobs if job.state != FOREIGN]
    if args.json:
        print_json([_as_json(job) for job in jobs])
    elif jobs:
        print_text(as_text(jobs, datetime.now(UTC)), {"JOB": "head"})
    else:
        print("no job runs", file=sys.stderr)
    if others and not (args.all or args.json):
        print(f"dlc: others have {others} on this engine: dlc ps --all", file=sys.stderr)
    return 0


def _print_placed(args: argparse.Namespace) -> int:
    """Print the jobs that a place tells of."""
    place = load_place(args.to)
    jobs = place.list_jobs(read_place_options(place, args.to, None, args.words))
    if args.json:
        print_json([asdict(job) for job in jobs])
    elif jobs:
        rows = [(job.id, job.name, job.state, job.hosts or "?", job.since or "?") for job in jobs]
        print(format_table(PLACED_HEADS, rows, terminal_columns()))
    else:
        print(f"no job runs on {args.to}", file=sys.stderr)
    return 0


def _as_json(job: KnownJob) -> dict[str, object]:
    return {**asdict(job), "log": str(job.log) if job.log else None, "progress": job.progress or None}


def _find_engine() -> Engine | None:
    """Return the engine that answers; without one the claims tell of the jobs."""
    try:
        return find_engine()
    except (EngineError, ProcessError) as error:
        _say_without_hosts(error)
        return None


def _say_without_hosts(error: Exception) -> None:
    print(f"dlc: nothing is known of the hosts: {error}", file=sys.stderr)


def as_text(jobs: Sequence[KnownJob], now: datetime) -> str:
    """Return a line for each job."""
    rows = [
        (job.id, job.state, _count_hosts(job), _format_age(job, now), describe_progress(job.progress), job.image or "?")
        for job in jobs
    ]
    return format_table(HEADS, rows, terminal_columns())


def _count_hosts(job: KnownJob) -> str:
    """Return `2 running`, or `1 exited, 1 running`."""
    if job.hosts is None:
        return "-" if job.state == ENDED else "?"
    counts = Counter(job.hosts.values())
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none yet"


def _format_age(job: KnownJob, now: datetime) -> str:
    """Return how long a job runs, in its largest unit: `3 min`."""
    if not job.started:
        return "?"
    return _format_seconds(max(int((now - datetime.fromisoformat(job.started)).total_seconds()), 0))


def _format_seconds(seconds: int) -> str:
    """Return a duration in its largest unit: `3 min`."""
    unit = next((unit for unit, size in UNITS.items() if seconds >= size), "s")
    return f"{seconds // UNITS.get(unit, 1)} {unit}"


def describe_progress(told: Mapping[str, object]) -> str:
    """Return `41%, 2 h left`, or as much as the job's ranks know: `step 1200`; `-` if they have made no step."""
    share, left, step = told.get("progress"), told.get("eta_seconds"), told.get("step")
    if not isinstance(step, int):
        return "-"
    done = f"{share}%" if isinstance(share, int) else f"step {step}"
    return f"{done}, {_format_seconds(left)} left" if isinstance(left, int) else done
