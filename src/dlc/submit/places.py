"""What a job is for another machine, and what a place offers. May import core, buildspec, jobs.run, jobs.job_file.

A place is a room `dlc.submit.NAME` whose package, or module, has the attributes of `Place`. It is imported by its name
when `--to NAME` asks for it, and imports its platform's client only where that is used. `OPTIONS`, `refuse_job` and
`render_job` are pure; the others are the thin edge: they run the platform's own client and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

from dlc.buildspec.problems import Mark, Problem, did_you_mean, raise_report
from dlc.buildspec.validation import Model, validate_node
from dlc.buildspec.yaml_layers import Node, mark_all, merge_layers, parse_yaml
from dlc.core.errors import UsageError
from dlc.jobs.job_file import SECRET, FromShell, JobFile, make_options
from dlc.jobs.run.job import GRACE, MOST_PLACE_HOSTS, TOKEN, make_job

# `local` is `dlc run`.
LOCAL = "local"
PLACES = ("slurm", "kubernetes", "sagemaker", "skypilot", "dstack")
# The launcher ends with 0 after a stop that all state was saved for, which a place takes for a job that is complete.
STOPPED, STOPPED_CODE = "DLC_STOPPED_EXIT_CODE", 143
TRAINING_GROUPS = "sagemaker_distribution_instance_groups"
# The launcher's code for a host that was lost.
LOST_CODE = 69


class PlaceOptions(Model):
    """What a place alone has to be told; each place derives its own. All values are text or made of text.

    They stand in the job's file, `places: {slurm: {partition: gpu}}`, and come from `--with partition=gpu`.
    """


@dataclass(frozen=True)
class SubmittedGroup:
    """Hosts of one kind. Values are those of `dlc run`; an empty one is not said."""

    # `homogeneousCluster` is the only group of a job that names none.
    name: str
    hosts: int
    # From the code directory; empty: the job's.
    program: str = ""
    # Empty: the job does not say; else as it was written, such as ml.c5.xlarge.
    instance_type: str = ""
    cpus: str = ""
    # 512m, 4g: `dlc.jobs.run.limits.count_bytes` reads it.
    memory: str = ""
    # `all`, a number, or `"device=0,1"`.
    gpus: str = ""


@dataclass(frozen=True)
class SubmittedJob:
    """Everything about a job that a place needs. Made by `make_submitted`; holds no value of a secret."""

    # Chosen by the user or made of the time: letters, digits, _ . and -, 63 at most.
    name: str
    # A Docker reference, as this machine knows it or as `--image` says.
    image: str
    groups: tuple[SubmittedGroup, ...]
    # Files, or one folder, whose content becomes /opt/ml/code; absolute.
    code: tuple[Path, ...]
    # The entry point, from the code directory, of every group that names none.
    program: str
    # As hyperparameters.json has them, values as text; the strategy's is among them, `sagemaker_program` is not.
    hyperparameters: Mapping[str, str]
    # Name -> an absolute path, or an address such as s3://bucket/data (`job_file.is_address`).
    channels: Mapping[str, str]
    # An absolute path, an address, or empty.
    checkpoints: str
    # With DLC_TERMINATION_GRACE, and DLC_GROUP_PROGRAMS if groups have programs of their own.
    environment: Mapping[str, str]
    # Names of variables whose values `submit_job` gets, the shell's or the file's; DLC_JOB_TOKEN is always among them.
    secrets: tuple[str, ...]
    # Where this machine keeps what belongs to the job, dlc-jobs/JOB or --output; absolute. A place need not use it.
    folder: Path
    # Behind `train`.
    arguments: tuple[str, ...] = ()
    # As for `docker run`; empty: the image's own.
    user: str = ""
    shared_memory: str = ""
    # The job says it itself: it is not the size that every job has.
    states_shared_memory: bool = False
    # Seconds from SIGTERM to SIGKILL.
    grace: int = 30

    @property
    def hosts(self) -> int:
        """Return how many hosts the job has."""
        return sum(group.hosts for group in self.groups)

    @property
    def training_groups(self) -> tuple[SubmittedGroup, ...]:
        """Return the groups whose end is the job's: those that the job is distributed over, else all."""
        stated = self.hyperparameters.get(TRAINING_GROUPS, "[]")
        try:
            names = json.loads(stated)
        except ValueError:
            names = [stated]
        found = tuple(group for group in self.groups if isinstance(names, list) and group.name in names)
        return found or self.groups


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
    """What the platform's client is given."""

    # The name of the file, such as job.sbatch or jobset.yml.
    name: str
    # What --dry-run prints: the whole file.
    text: str
    # The same for the place's own code, such as the words of a call; not shown.
    value: Any = None


@dataclass(frozen=True)
class PlacedJob:
    """A job as a platform tells of it."""

    # What the platform calls it: 4711, a name.
    id: str
    # The job's own name.
    name: str
    # The platform's word.
    state: str
    # As the platform says it; empty if it does not.
    since: str = ""
    hosts: str = ""


class Place(Protocol):
    """What the module of a place has. Errors are classes of `core/errors.py` with a remedy."""

    # The model of its options.
    OPTIONS: type[PlaceOptions]

    def refuse_job(self, job: SubmittedJob, options: Any) -> Sequence[Refusal]:
        """Return all that the place cannot do, nothing if it can do the job. Pure."""

    def render_job(self, job: SubmittedJob, options: Any) -> Document:
        """Return the document of a job that was not refused. Pure: no clock, no random number, no file's content
        but that of `job.code`.
        """

    def submit_job(self, job: SubmittedJob, options: Any, document: Document, secrets: Mapping[str, str]) -> str:
        """Hand the document to the platform; return the job's id there.

        `secrets` are the values of `job.secrets`. If a later step fails, what earlier ones made is removed.
        """

    def list_jobs(self, options: Any) -> list[PlacedJob]:
        """Return the jobs that run or wait there, and those that ended lately if the platform says so."""

    def print_logs(self, job_id: str, options: Any, out: TextIO, *, follow: bool) -> None:
        """Print the job's lines; with `follow` until it ends."""

    def wait_for_job(self, job_id: str, options: Any) -> int:
        """Return the job's exit code when it has ended: the launcher's own if the platform tells it, else 1."""

    def stop_job(self, job_id: str, options: Any) -> None:
        """Stop the job as the platform does: its hosts have the job's grace to save."""


def has_place(name: str) -> bool:
    """Tell whether this dlc has the module of a place."""
    return find_spec(f"dlc.submit.{name}") is not None


def load_place(name: str) -> Place:
    """Import a place. Raises UsageError for a name that is none, or a place that this dlc does not have."""
    if name not in PLACES:
        near = did_you_mean(name, (LOCAL, *PLACES))
        raise UsageError(f"--to {name}: expected {LOCAL}, {', '.join(PLACES)}{f'; {near}' if near else ''}")
    if not has_place(name):
        raise UsageError(f"--to {name}: this dlc has no module for {name}", "use another place, or a newer dlc")
    return cast("Place", import_module(f"dlc.submit.{name}"))


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
    mark = Mark(f"--with {key}")
    if not equals or not key:
        raise UsageError(f"--with {word}: expected KEY=VALUE", "for example --with partition=gpu")
    parsed, problems = parse_yaml(value, mark.file)
    node = mark_all(parsed, mark) if parsed and value.strip() else Node("", mark, mark)
    for step in reversed(key.split(".")):
        node = Node({step: node}, mark, mark)
    return node, [Problem(mark, key, problem.expected, problem.found) for problem in problems]


def make_submitted(file: JobFile, *, image: str, name: str, folder: Path) -> SubmittedJob:
    """Make what a place gets of a job's file. The shell's values of secrets are not read here.

    A variable whose name says that it is a secret is one, also if the file has its value: no document shows it.
    """
    spec = file.spec
    secrets = tuple(key for key, value in spec.environment.items() if value == FromShell() or SECRET.search(key))
    options = make_options(file)
    stated = {key: value for key, value in options.environment.items() if value is not None}
    asked = replace(options, environment=stated)
    job = make_job(asked, {}, image=image, id=name, folder=folder, token="", most_hosts=MOST_PLACE_HOSTS)
    groups = tuple(
        SubmittedGroup(
            name=group.name,
            hosts=len(group.hosts),
            program=group.program,
            instance_type=_find_type(file, group.name),
            cpus=group.cpus,
            memory=group.memory,
            gpus=group.gpus,
        )
        for group in job.groups
    )
    return SubmittedJob(
        name=name,
        image=image,
        groups=groups,
        code=job.code,
        program=job.program,
        hyperparameters=job.hyperparameters,
        channels={key: str(job.channels.get(key, word)) for key, word in spec.channels.items()},
        checkpoints=str(job.checkpoints or spec.checkpoints),
        environment={
            GRACE: spec.grace,
            **_name_programs(job.programs),
            **{key: value for key, value in job.environment.items() if key not in secrets},
        },
        secrets=tuple(dict.fromkeys((TOKEN, *secrets))),
        folder=folder,
        arguments=spec.arguments,
        user=spec.user,
        shared_memory=spec.shared_memory,
        states_shared_memory="shared_memory" in spec.model_fields_set,
        grace=int(spec.grace),
    )


def _find_type(file: JobFile, group: str) -> str:
    own = file.spec.groups.get(group)
    return (own.instance_type if own else "") or file.spec.resources.instance_type


def _name_programs(programs: Mapping[str, str]) -> dict[str, str]:
    return {"DLC_GROUP_PROGRAMS": json.dumps(dict(programs))} if programs else {}
