"""What Slurm alone has to be told, and what it cannot do of a job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from dlc.checked_yaml.problems import did_you_mean
from dlc.checked_yaml.validation import Model
from dlc.job.job_spec import Group, JobSpec
from dlc.job.values import is_address, match_stated
from dlc.places.place import LAUNCHER, PlaceOptions, Refusal
from dlc.places.refusals import (
    name_group_keys,
    refuse_group_images,
    refuse_images,
    refuse_shared_memory,
    refuse_variables,
)

# How a site runs containers, and without one.
PYXIS: Final = "pyxis"
APPTAINER: Final = "apptainer"
OCI: Final = "oci"
NONE: Final = "none"
# Names of files of images end so.
SQSH, SIF = ".sqsh", ".sif"
# What our images start with.
ENTRYPOINT = ("/usr/bin/tini", "--", *LAUNCHER)
YesNo = Literal["yes", "no"]
# Separates fields of a mount, of an sbatch file name or of a line of an sbatch file, in which # begins a comment.
NO_PATH = re.compile(r"[:,%#'\"\\\s]")
# Options of sbatch that dlc writes itself, or that would make another job of this one.
OWN_OPTIONS = (
    *("account", "array", "constraint", "cpus-per-task", "error", "exclusive", "export", "export-file"),
    *("gpus-per-node", "het-group", "input", "job-name", "mem", "nodelist", "nodes", "no-requeue", "ntasks"),
    *("ntasks-per-node", "open-mode", "output", "parsable", "partition", "qos", "requeue", "signal", "test-only"),
    *("time", "wait", "wrap"),
)
# Options that begin another one's name.
SHORT_OPTIONS = ("gpus",)


def _long_option(text: str) -> str:
    if not re.fullmatch(r"--[a-z][a-z-]*(=[^\s#\"'\\]+)?", text):
        raise ValueError("an option of sbatch such as --reservation=night")
    name = text.removeprefix("--").partition("=")[0]
    # sbatch takes the beginning of a name for the whole.
    if own := [each for each in OWN_OPTIONS if each.startswith(name) and name not in SHORT_OPTIONS]:
        raise ValueError(f"no --{own[0]}, which dlc writes itself or which makes another job of this one")
    return text


# A line of an sbatch file would take another text apart, or take it for a comment.
Word = Annotated[str, match_stated(r"[^\s#\"'\\]+", "one word without quotes, backslashes and #")]
SharedPath = Annotated[str, match_stated("(?s:/.*)", "a path from the root, which is the same on all nodes")]
# sbatch says no more of a wrong one than that the time is invalid.
TimeLimit = Annotated[
    str,
    match_stated(
        r"[0-9]+|([0-9]+-)?[0-9]+(:[0-9]{1,2}){1,2}|[0-9]+-[0-9]+|UNLIMITED",
        "minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS",
    ),
]
Extra = Annotated[str, AfterValidator(_long_option)]


class GroupOptions(Model):
    """What a group of the job has of its own; what it leaves out is the job's."""

    partition: Word = Field(default="", description="the partition")
    constraint: Word = Field(default="", description="features that the nodes have")
    nodelist: Word = Field(default="", description="nodes that are wanted")
    extra: tuple[Extra, ...] = Field(default=(), description="more options of sbatch")


class OPTIONS(PlaceOptions):
    """The options below `places: {slurm: ...}`."""

    partition: Word = Field(default="", description="the partition")
    account: Word = Field(default="", description="whom the time is charged to")
    qos: Word = Field(default="", description="the quality of service")
    time: TimeLimit = Field(default="", description="the limit, such as 2:00:00")
    constraint: Word = Field(default="", description="features that the nodes have")
    nodelist: Word = Field(default="", description="nodes that are wanted")
    exclusive: YesNo = Field(default="no", description="no other job on the nodes")
    requeue: YesNo = Field(default="no", description="start again after a lost node, a preemption or the time limit")
    container: Literal["pyxis", "apptainer", "oci", "none"] = Field(default=PYXIS, description="how the site runs it")
    bundle: Word = Field(default="", description="the OCI bundle, with container: oci")
    launcher: tuple[str, ...] = Field(default=ENTRYPOINT, description="what starts the launcher in the container")
    folder: SharedPath = Field(
        default="", description="where JOB gets its folder, for all nodes to see (default: dlc-jobs)"
    )
    extra: tuple[Extra, ...] = Field(default=(), description="more options of sbatch, such as --reservation=night")
    groups: dict[str, GroupOptions] = Field(default={}, description="what groups have of their own")


def find_folder(job: JobSpec, options: OPTIONS) -> Path:
    """Return the folder that holds the job's code, its log and what each host writes."""
    return Path(options.folder, job.name) if options.folder else job.folder


def refuse_job(job: JobSpec, options: OPTIONS) -> list[Refusal]:
    """Return what Slurm cannot do of the job."""
    return [
        *_refuse_image(job, options),
        *_refuse_values(job),
        *_refuse_paths(job, options),
        *_refuse_options(job, options),
        *refuse_shared_memory(job, "the site"),
        *refuse_variables(job, "Slurm"),
    ]


def is_file(image: str, ending: str) -> bool:
    """Tell whether an image is a file that the nodes have, such as x.sqsh."""
    return image.startswith(("/", ".")) or image.endswith(ending)


def _refuse_image(job: JobSpec, options: OPTIONS) -> Iterator[Refusal]:
    images = [*job.list_images()]
    if options.container == PYXIS:
        asked = [(keys, image) for keys, image in images if not is_file(image, SQSH)]
        yield from refuse_images(asked, f"or a {SQSH} file that the nodes have")
    elif options.container == APPTAINER:
        # Of the schemes of apptainer only this one is that of Docker references.
        asked = [(keys, image.removeprefix("docker://")) for keys, image in images if not is_file(image, SIF)]
        yield from refuse_images([(keys, image) for keys, image in asked if "://" not in image], f"or a {SIF} file")
    else:
        yield from refuse_group_images(job)


def _refuse_values(job: JobSpec) -> Iterator[Refusal]:
    for group in job.host_groups:
        if group.gpus and not group.gpus.isdigit():
            keys = name_group_keys(group.name, "gpus")
            yield Refusal(keys, "a number of GPUs, because Slurm chooses which", group.gpus)
    if job.user:
        yield Refusal(("user",), "no other user: Slurm runs a job as who submits it", job.user)


def _refuse_paths(job: JobSpec, options: OPTIONS) -> Iterator[Refusal]:
    for keys, word in (*job.list_data(), (("places", "slurm", "folder"), str(find_folder(job, options)))):
        if is_address(word):
            yield Refusal(keys, "a folder that all nodes see", word, "copy it there first")
        elif NO_PATH.search(word):
            yield Refusal(keys, "a path without spaces, colons, commas, quotes, #, % and backslashes", word)


def _refuse_options(job: JobSpec, options: OPTIONS) -> Iterator[Refusal]:
    names = [group.name for group in job.host_groups]
    for name in options.groups:
        if name not in names:
            keys = ("places", "slurm", "groups", name)
            yield Refusal(keys, f"a group out of {', '.join(names)}", name, did_you_mean(name, names))
    if (options.container == OCI) != bool(options.bundle):
        found = options.bundle or "none"
        yield Refusal(("places", "slurm", "bundle"), f"a bundle with container: {OCI}, and only there", found)


def by_group(options: OPTIONS, group: Group) -> Mapping[str, str]:
    """Return the options of one component of the job, the empty ones left out.

    An instance type is a feature of its nodes, as AWS ParallelCluster calls them: sbatch refuses one that no node has.
    """
    own = options.groups.get(group.name, GroupOptions())
    stated = {
        "partition": own.partition or options.partition,
        "account": options.account,
        "qos": options.qos,
        "time": options.time,
        "constraint": own.constraint or options.constraint or group.instance_type.removeprefix("ml."),
        "nodelist": own.nodelist or options.nodelist,
    }
    return {key: value for key, value in stated.items() if value}
