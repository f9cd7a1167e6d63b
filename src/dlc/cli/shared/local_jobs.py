"""A job of this machine that a verb starts: made from its words, then run in the foreground."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlc.cli.shared.arguments import show_step
from dlc.cli.shared.job_specs import Images, place_job, raise_refusals, read_job
from dlc.engine.connection import find_engine_for_job
from dlc.job.job_spec import JobSpec
from dlc.places.local.claims import claims_folder
from dlc.places.local.job import Job, make_job
from dlc.places.local.known_jobs import require_free_name
from dlc.places.local.run import run_job
from dlc.places.place import LOCAL, load_place, read_place_options


@dataclass(frozen=True)
class LocalJob:
    """A job of this machine: as it was said, what the place is told of it besides, and its hosts and folders."""

    spec: JobSpec
    options: Any
    job: Job


def make_local_job(
    args: argparse.Namespace, verb: str, *, name: str = "", prefix: str = "", words: Sequence[str] = ()
) -> LocalJob:
    """Make the job of this machine that a verb is told; `words` are options of the place, as --with has them."""
    images = Images()
    stated = read_job(args, verb, images)
    stated.raise_problems(stated.spec.list_unset(os.environ))
    options = read_place_options(load_place(LOCAL), LOCAL, stated.node, words)
    spec, options = images.fit_job(place_job(stated.spec, verb, name, args.output, images, prefix=prefix), options)
    raise_refusals(load_place(LOCAL).refuse_job(spec, options), stated, LOCAL)
    job = make_job(spec, os.environ, secrets.token_hex(16))
    return LocalJob(spec, options, replace(job, platform=options.platform))


def start_job(job: Job, *, is_named: bool = False, watch: bool = False) -> int:
    """Start the job; return its exit code. A name that a user gives may be another job's."""
    engine, claims = find_engine_for_job(), claims_folder()
    if is_named:
        require_free_name(claims, job.id, engine)
    return run_job(job, engine, claims, watch=watch, show=show_step)
