"""A job as a value: what a file and a command line say of it, and what follows from that alone.

An option of a job is a field here; its flag, if it has one, stands in `words.py`. Reads no more than which files and
folders are there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr

from dlc.checked_yaml.validation import Model
from dlc.job.limits import UNLIMITED
from dlc.job.strategies import STRATEGIES
from dlc.job.values import (
    FROM_SHELL,
    Count,
    Cpus,
    FromShell,
    Gpus,
    InstanceType,
    JobName,
    Memory,
    Name,
    OptionalCount,
    Size,
    Text,
    Variable,
    VariableName,
    is_address,
)

# SageMaker's name for the only group of a job.
ONLY_GROUP = "homogeneousCluster"
# A limit: memory is taken when data loaders write to it.
SHARED_MEMORY = "8g"
# From SIGTERM to SIGKILL.
STOP_SECONDS = 30
TOKEN = "DLC_JOB_TOKEN"  # noqa: S105 - the name of a variable
GRACE, PROGRAMS = "DLC_TERMINATION_GRACE", "DLC_GROUP_PROGRAMS"
MOST_HOSTS = 100_000
# What inputdataconfig.json says of a channel whose files are on the host.
CHANNEL = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
TRAINING_GROUPS = "sagemaker_distribution_instance_groups"
# Whoever starts the hosts says by these who they are: the launcher would wait for others, or be told twice.
HOST_VARIABLE = re.compile(r"DLC_(GROUPS|HOSTS|NUM_HOSTS|RANK|SERVICE)|JOBSET_NAME|SLURM_\w+")
# Where `dlc submit --to` hands a job: each is a module of `dlc.places`.
PLACES = ("local", "slurm", "kubernetes", "sagemaker", "skypilot", "dstack")
# A variable of such a name holds a secret.
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)
# The way to a value of the file.
Keys = tuple[str | int, ...]
# That way, what was expected there, what was found.
Finding = tuple[Keys, str, str]


class Resources(Model):
    """What each host gets."""

    cpus: Cpus = Field(default="", description="CPUs of a host, such as 0.5; 0 is no limit")
    memory: Memory = Field(default="", description="memory of a host, such as 512m or 4g; 0 is no limit")
    gpus: Gpus = Field(default="", description="GPUs of a host: all, a number, or device=0,1")
    instance_type: InstanceType = Field(default="", description="type of the machine, such as ml.c5.xlarge")


class GroupSpec(Resources):
    """An instance group; what it leaves out is the job's."""

    hosts: OptionalCount = Field(default=0, description="hosts of the group; without it the job's `hosts`")
    program: str = Field(default="", description="the group's own entry point")
    image: str = Field(default="", description="the group's own image")
    channels: dict[Name, Text] = Field(default={}, description="channels of this group alone, beside the job's")


class Group(GroupSpec):
    """A group with all that holds for its hosts: an empty limit is no limit."""

    name: str
    # Whether the job says that there is no limit of memory; else a place may have a limit of its own.
    unlimited: bool = False


class JobSpec(Model):
    """A job: an image, a script, hosts, and what they get. Paths are from the folder of this file."""

    image: Text = Field(description="an image identifier, or a Docker reference")
    script: Text = Field(description="the entry point: a file, or with `source` a path in that folder")
    name: JobName = Field(default="", description="the job's name; without it the time and six digits")
    source: str = Field(default="", description="a folder of code")
    arguments: tuple[str, ...] = Field(default=(), description="words that the script gets as they are")
    hosts: Count = Field(default=1, description="hosts of the job, or of each group that names no number")
    distributed: Literal["", *STRATEGIES] = Field(  # type: ignore[valid-type]
        default="", description="train one model together, by this strategy"
    )
    groups: dict[Name, GroupSpec] = Field(
        default={},
        description=f"groups by name, in their order: {', '.join(GroupSpec.model_fields)}",
    )
    hyperparameters: dict[Text, str] = Field(default={}, description="as hyperparameters.json has them, as text")
    channels: dict[Name, Text] = Field(
        default={}, description="input channels: a folder, or an address such as s3://bucket/data"
    )
    checkpoints: str = Field(default="", description="the folder or the address of /opt/ml/checkpoints of all hosts")
    environment: dict[VariableName, Variable] = Field(
        default={}, description=f"variables: text, or {{from: {FROM_SHELL}}} for the value of the shell that starts it"
    )
    resources: Resources = Field(default=Resources(), description="what each host gets")
    shared_memory: Size = Field(default=SHARED_MEMORY, description="limit of shared memory, such as 8g")
    user: str = Field(default="", description="who runs in the containers, as for `docker run`")
    grace: Count = Field(default=STOP_SECONDS, description="seconds from a stop to SIGKILL")
    places: dict[Literal[*PLACES], dict[str, Any]] = Field(  # type: ignore[valid-type]
        default={}, description="options of each place that `dlc submit --to` knows"
    )

    # Where this machine keeps what belongs to the job: set by `place`, and no key of a file.
    _folder: Path = PrivateAttr(Path())

    @property
    def folder(self) -> Path:
        """Return where this machine keeps what belongs to the job; absolute. A place need not use it."""
        return self._folder

    def place(self, name: str, folder: Path, find_image: Callable[[str], str]) -> Self:
        """Return the job with a name, a folder, and its images as Docker references, which `find_image` returns."""
        groups = self.map_groups(lambda group: {"image": find_image(group.image) if group.image else ""})
        placed = self.model_copy(update={"name": name, "image": find_image(self.image), "groups": groups})
        placed._folder = folder
        return placed

    @property
    def host_groups(self) -> tuple[Group, ...]:
        """Return the groups in their order, each with what holds for its hosts."""
        return tuple(self._complete(name, group) for name, group in (self.groups or {ONLY_GROUP: GroupSpec()}).items())

    def _complete(self, name: str, group: GroupSpec) -> Group:
        stated = {key: getattr(group, key) or getattr(self.resources, key) for key in Resources.model_fields}
        complete: dict[str, Any] = {key: "" if value == UNLIMITED else value for key, value in stated.items()}
        complete |= {
            "name": name,
            "hosts": group.hosts or self.hosts,
            "program": self._enter(group.program) if group.program else "",
            "image": group.image or self.image,
            "channels": {**self.channels, **group.channels},
            "unlimited": stated["memory"] == UNLIMITED,
        }
        return Group.model_construct(**complete)

    @property
    def has_groups(self) -> bool:
        """Tell whether the job names its groups."""
        return [*self.groups] not in ([], [ONLY_GROUP])

    @property
    def host_count(self) -> int:
        """Return how many hosts the job has."""
        return sum(group.hosts for group in self.host_groups)

    @property
    def training_groups(self) -> tuple[Group, ...]:
        """Return the groups whose end is the job's: those that the job is distributed over, else all."""
        stated = self.hyperparameters.get(TRAINING_GROUPS, "[]")
        try:
            names = json.loads(stated)
        except ValueError:
            names = [stated]
        found = tuple(group for group in self.host_groups if isinstance(names, list) and group.name in names)
        return found or self.host_groups

    @property
    def code(self) -> tuple[Path, ...]:
        """Return the files, or the one folder, whose content becomes /opt/ml/code."""
        if self.source:
            return (Path(self.source),)
        programs = (group.program for group in self.groups.values() if group.program)
        return tuple(dict.fromkeys(Path(word) for word in (self.script, *programs)))

    @property
    def program(self) -> str:
        """Return the entry point, from the code directory, of every group that names none."""
        return self._enter(self.script)

    def _enter(self, word: str) -> str:
        return Path(word).as_posix() if self.source else Path(word).name

    @property
    def parameters(self) -> dict[str, str]:
        """Return the content of hyperparameters.json but the entry point: the job's own, and that of its strategy."""
        return {**self.hyperparameters, **({STRATEGIES[self.distributed]: "true"} if self.distributed else {})}

    @property
    def variables(self) -> dict[str, str]:
        """Return what hosts have in their environment, without secrets."""
        programs = {group.name: group.program for group in self.host_groups if group.program}
        own = {name: value for name, value in self.environment.items() if name not in self.secrets}
        return {GRACE: str(self.grace), **({PROGRAMS: json.dumps(programs)} if programs else {}), **own}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the variables whose values no document and no command line shows; the job's token is one."""
        own = (key for key, value in self.environment.items() if value == FromShell() or SECRET.search(key))
        return tuple(dict.fromkeys((TOKEN, *own)))

    def read_secrets(self, shell: Mapping[str, str], token: str) -> dict[str, str]:
        """Return the values of secrets: the job's before the shell's; the token is `token` without both."""
        stated = {key: value for key, value in self.environment.items() if isinstance(value, str)}
        known = {TOKEN: token, **shell, **stated}
        return {name: known[name] for name in self.secrets if name in known}

    def list_unset(self, shell: Mapping[str, str]) -> Iterator[Finding]:
        """Yield the variables that the shell is to have, and has not."""
        for name, value in self.environment.items():
            if value == FromShell() and name not in shell:
                yield ("environment", name), f"{name} in this shell's environment", "none"

    def map_groups(self, change: Callable[[GroupSpec], Mapping[str, Any]]) -> dict[str, GroupSpec]:
        """Return the groups with what `change` says of each."""
        return {name: group.model_copy(update=change(group)) for name, group in self.groups.items()}

    def resolve_paths(self, folder: Path, *, is_file: bool) -> Self:
        """Return the job with every path from the root. `folder`, a file's or the current one, is what they are from.

        Addresses stay.
        """

        def find(word: str) -> str:
            # Path.expanduser raises an error for a user who is not there.
            path = folder / os.path.expanduser(word)  # noqa: PTH111
            # The folder may be a link: what the file says of its neighbours is meant where it lies.
            return os.path.normpath(path) if is_file else str(path)

        return self.map_paths(find)

    def map_paths(self, change: Callable[[str], str]) -> Self:
        """Return the job with what `change` makes of each path; addresses stay."""

        def code(word: str) -> str:
            return change(word) if word and not self.source else word

        def data(word: str) -> str:
            return word if not word or is_address(word) else change(word)

        def folders(channels: Mapping[str, str]) -> dict[str, str]:
            return {name: data(word) for name, word in channels.items()}

        changed = {"script": code(self.script), "source": change(self.source) if self.source else "",
                   "channels": folders(self.channels), "checkpoints": data(self.checkpoints),
                   "groups": self.map_groups(lambda group: {"program": code(group.program),
                                                            "channels": folders(group.channels)})}  # fmt: skip
        return self.model_copy(update=changed)

    def list_images(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the keys of each image, and the image: the job's, then those of groups that have one."""
        yield ("image",), self.image
        yield from ((("groups", name, "image"), group.image) for name, group in self.groups.items() if group.image)

    def list_channels(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the keys of each channel, and where its data is: the job's, then those of each group."""
        yield from ((("channels", name), word) for name, word in self.channels.items())
        for group, spec in self.groups.items():
            yield from ((("groups", group, "channels", name), word) for name, word in spec.channels.items())

    def list_data(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the keys of each channel and of the checkpoints, and where they are."""
        yield from self.list_channels()
        if self.checkpoints:
            yield ("checkpoints",), self.checkpoints

    def find_mistakes(self) -> Iterator[Finding]:
        """Yield what is not there, and numbers of hosts that are too many. Paths are from the root."""
        if self.source and not Path(self.source).is_dir():
            yield ("source",), "a folder", f"no folder {self.source}"
        programs = {("groups", name, "program"): each.program for name, each in self.groups.items() if each.program}
        for keys, word in [(("script",), self.script), *programs.items()]:
            yield from self._find_wrong_program(keys, word)
        for keys, word in self.list_channels():
            if not is_address(word) and not Path(word).is_dir():
                yield keys, "a folder, or an address such as s3://bucket/data", f"no folder {word}"
        names = [path.name for path in self.code]
        for keys, word in programs.items():
            if names.count(Path(word).name) > 1:
                yield keys, "files with names of their own", f"two called {Path(word).name}"
        yield from self.find_too_many(MOST_HOSTS)

    def _find_wrong_program(self, keys: Keys, word: str) -> Iterator[Finding]:
        file = Path(self.source, word)
        if self.source and (Path(word).is_absolute() or ".." in Path(word).parts):
            yield keys, f"a path in {Path(self.source).name}, which every host gets", word
        elif file.is_dir():
            yield (
                keys,
                "the file of an entry point",
                f"a folder, {file}: name the file in it, and the folder as `source` (--source)",
            )
        elif not file.is_file() and (not self.source or Path(self.source).is_dir()):
            yield keys, "the file of an entry point", f"no file {file}"

    def find_too_many(self, most: int, where: str = "") -> Iterator[Finding]:
        """Yield the hosts of the job if they are more than `most`."""
        if self.host_count > most:
            yield ("groups" if self.groups else "hosts",), f"at most {most} hosts in all{where}", str(self.host_count)


def describe_channels(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what a host's inputdataconfig.json says of its channels."""
    return {name: dict(CHANNEL) for name in names}
