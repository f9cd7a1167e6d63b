"""What this machine cannot do of a job, the containers that a job is here, and its start in the background."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from dlc.core.errors import DlcError
from dlc.engine.connection import find_engine_for_job
from dlc.job.job_file import format_job
from dlc.job.job_spec import HOST_VARIABLE, JobSpec
from dlc.job.values import is_address
from dlc.places.local.claims import claims_folder
from dlc.places.local.containers import explain_as_text
from dlc.places.local.detach import start_in_background
from dlc.places.local.job import MOST_HOSTS, make_job
from dlc.places.local.known_jobs import require_free_name
from dlc.places.local.watch import explain_watch
from dlc.places.place import Document, PlaceOptions, Refusal

NAME = "job.yml"


class OPTIONS(PlaceOptions):
    """The options below `places: {local: ...}`."""

    watch: Literal["yes", "no"] = Field(default="no", description="show the job in tensorboard until it ends")
    platform: str = Field(default="", description="of the images, if Docker has to be told it: linux/arm64")


def refuse_job(job: JobSpec, options: OPTIONS) -> list[Refusal]:
    """Return what this machine cannot do of the job."""
    return [*_refuse_data(job), *_refuse_hosts(job)]


def _refuse_data(job: JobSpec) -> Iterator[Refusal]:
    for keys, word in job.list_data():
        if is_address(word):
            yield Refusal(keys, "a folder of this machine, for a job that runs here", word)


def _refuse_hosts(job: JobSpec) -> Iterator[Refusal]:
    for keys, expected, found in job.find_too_many(MOST_HOSTS, " on one machine"):
        yield Refusal(tuple(map(str, keys)), expected, found)
    for name in job.environment:
        if HOST_VARIABLE.fullmatch(name):
            yield Refusal(("environment", name), "hosts that dlc names", name)


def render_job(job: JobSpec, options: OPTIONS) -> Document:
    """Return the containers as they could be typed; `value` is the job without values of secrets."""
    value = replace(make_job(job, {**dict.fromkeys(job.secrets, ""), **os.environ}, ""), platform=options.platform)
    watch = f"\n\ntensorboard\n  {explain_watch(value)}" if options.watch == "yes" else ""
    return Document(NAME, explain_as_text(value) + watch, value)


def submit_job(job: JobSpec, options: OPTIONS, document: Document, secrets: Mapping[str, str]) -> str:
    """Start `dlc run` of the job's file, which is written to the job's folder, in the background; return its name."""
    engine = find_engine_for_job()
    require_free_name(claims_folder(), job.name, engine)
    path = job.folder / document.name
    words = ["run", str(path), "--name", job.name, "--output", str(job.folder)]
    words += ["--watch"] if options.watch == "yes" else []
    code = start_in_background(words, document.value, claims_folder(), {path: format_job(job, job.folder)}, secrets)
    if code:
        raise DlcError(f"{job.name}: expected a job that begins, found the exit code {code}", "dlc run FILE")
    return job.name
