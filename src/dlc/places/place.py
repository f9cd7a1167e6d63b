"""What a place offers that runs jobs. May import core, buildspec, job.

A place is a room `dlc.places.NAME` whose package, or module, has the attributes of `Place`. It is imported by its name
when `--to NAME` asks for it, and imports its client only if that is used. `OPTIONS`, `refuse_job` and
`render_job` are pure; the others are the thin edge: they run the place's own client and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TextIO, cast

from dlc.checked_yaml.problems import Mark, Problem, did_you_mean, raise_report
from dlc.checked_yaml.validation import Model, validate_node
from dlc.checked_yaml.yaml_layers import Node, merge_layers, read_layer
from dlc.core.errors import UsageError
from dlc.job.job_spec import PLACES, JobSpec

# This machine; of all verbs without --to.
LOCAL = PLACES[0]
# The launcher ends with 0 after a stop if all state was saved. A place would show such a job as complete.
STOPPED, STOPPED_CODE = "DLC_STOPPED_EXIT_CODE", 143
# The launcher's code for a host that was lost.
LOST_CODE = os.EX_UNAVAILABLE
# Where a job's files lie in its containers, as SageMaker says.
BASE = "/opt/ml"
# How an image starts the launcher: the system's Python, which no variable of the user changes.
LAUNCHER = ("/usr/bin/python3", "-I", "-S", "/opt/dlc/entrypoint/launcher.py")


class PlaceOptions(Model):
    """What a place alone has to be told; each place derives its own. All values are text or made of text.

    They stand in the job's file, `places: {slurm: {partition: gpu}}`, and come from `--with partition=gpu`.
    """


@dataclass(frozen=True)
class Refusal:
    """One thing of a job that a place cannot do."""

    # Where it stands in the job's file, such as ("channels", "training"); () for the job as a whole.
    keys: tuple[str, ...]
    # `expected WHAT, found WHAT`, in the words of the other errors.
    expected: str
    found: str
    # What to do about it.
    hint: str = ""


@dataclass(frozen=True)
class Document:
    """What the place's client is given."""

    # The name of the file, such as job.sbatch or jobset.yml.
    name: str
    # What --dry-run prints: the whole file.
    text: str
    # The same for the place's own code, such as the words of a call; not shown.
    value: Any = None


@dataclass(frozen=True)
class ListedJob:
    """A job as a place tells of it."""

    # What the place calls it: 4711, a name.
    id: str
    # The job's own name.
    name: str
    # The place's word.
    state: str
    # As the place says it; empty if it does not.
    since: str = ""
    hosts: str = ""


class Place(Protocol):
    """What the module of a place has. Errors are classes of `core/errors.py` with a remedy."""

    # The model of its options.
    OPTIONS: type[PlaceOptions]

    def refuse_job(self, job: JobSpec, options: Any) -> Sequence[Refusal]:
        """Return all that the place cannot do, nothing if it can do the job. Pure.

        The job has its name, its folder, and its images as Docker references, as this machine or `--image` says them.
        """

    def render_job(self, job: JobSpec, options: Any) -> Document:
        """Return the document of a job that was not refused. Pure: no clock, no random number, no file's content
        but that of `job.code`.
        """

    def submit_job(self, job: JobSpec, options: Any, document: Document, secrets: Mapping[str, str]) -> str:
        """Hand the document to the place; return the job's id there.

        `secrets` are the values of `job.secrets`. If a later step fails, what earlier ones made is removed.
        """

    def list_jobs(self, options: Any) -> list[ListedJob]:
        """Return the jobs that run or wait there, and those that ended lately if the place says so."""

    def print_logs(self, job_id: str, options: Any, out: TextIO, *, follow: bool) -> None:
        """Print the job's lines; with `follow` until it ends."""

    def wait_for_job(self, job_id: str, options: Any) -> int:
        """Return the job's exit code when it has ended: the launcher's own if the place tells it, else 1."""

    def stop_job(self, job_id: str, options: Any) -> str:
        """Stop the job as the place does: its hosts have the job's grace to save. Return a line that says so."""


def say_asked(job_id: str) -> str:
    """Return the line on a job that will end when its hosts have saved."""
    return f"{job_id} is asked to stop; dlc logs {job_id} -f ends when it has ended"


def load_place(name: str) -> Place:
    """Import a place. Raises UsageError for a name that no place has."""
    if name not in PLACES:
        near = did_you_mean(name, PLACES)
        raise UsageError(f"--to {name}: expected {', '.join(PLACES)}{f'; {near}' if near else ''}")
    return cast("Place", import_module(f"dlc.places.{name}"))


def read_place_options(place: Place, name: str, node: Node | None, words: Sequence[str]) -> Any:
    """Return the options of a place: those of the job's file, over which the words of --with stand.

    Raises SpecError with line and column, or UsageError, for what is wrong.
    """
    layer = node.at(("places", name)) if node else None
    merged = layer or Node({}, Mark(f"--to {name}"))
    problems: list[Problem] = []
    for word in words:
        over, found = _read_with(word)
        # What is no YAML has no value that could be wrong too.
        merged = merged if found else merge_layers(merged, over)
        problems += found
    options, found = validate_node(place.OPTIONS, merged)
    raise_report([*problems, *found])
    return options


def _read_with(word: str) -> tuple[Node, list[Problem]]:
    """Return the layer that one `--with KEY=VALUE` makes; a dot in KEY leads into a mapping, VALUE is read as YAML."""
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise UsageError(f"--with {word}: expected KEY=VALUE", "for example --with partition=gpu")
    return read_layer(Mark(f"--with {key}"), key, key.split("."), value)
