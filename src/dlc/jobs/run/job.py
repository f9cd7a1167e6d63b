"""A training job as a value: groups of hosts, the code that they run, and what each of them gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ONLY_GROUP = "homogeneousCluster"  # the platform's name for the only group of a job
LOCAL_INSTANCE = "local"  # what the platform's SDK calls the type of a machine that is no instance
SHARED_MEMORY = "8g"  # a limit: memory is taken when data loaders write to it
STOP_SECONDS = 30  # from SIGTERM to SIGKILL


@dataclass(frozen=True)
class Group:
    """Hosts of one kind. Limits are written as for `docker run`; an empty one is no limit."""

    name: str
    hosts: tuple[str, ...]
    instance_type: str = LOCAL_INSTANCE
    program: str = ""  # empty: the job's
    cpus: str = ""
    memory: str = ""
    gpus: str = ""


@dataclass(frozen=True)
class Job:
    """Everything about a job. `folder` gets a folder for each host, and the results."""

    id: str
    image: str  # a Docker reference
    folder: Path
    groups: tuple[Group, ...]
    code: tuple[Path, ...]  # files, or one folder, of which every host gets a copy
    program: str = ""  # the entry point of every group that names none, from the code directory
    hyperparameters: Mapping[str, str] = field(default_factory=dict)  # as the file has them: values as JSON text
    channels: Mapping[str, Path] = field(default_factory=dict)  # mounted, and not writable
    checkpoints: Path | None = None  # /opt/ml/checkpoints of all hosts, which outlives the job; None: each has its own
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # variables whose values no command line shows
    authorities: Path | None = None  # certificates that the hosts trust; None: those of the image
    labels: tuple[str, ...] = ()
    command: tuple[str, ...] = ("train",)
    entrypoint: str = ""  # empty: the image's own
    user: str = ""  # as for `docker run`; empty: the image's own
    shared_memory: str = SHARED_MEMORY
    stop_seconds: int = STOP_SECONDS

    @property
    def name(self) -> str:
        """The network's name; the containers' names begin with it."""
        return f"dlc-{self.id}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host, in the order of its group and its place in it."""
        return tuple(host for group in self.groups for host in group.hosts)

    @property
    def programs(self) -> dict[str, str]:
        """The programs of groups that name one."""
        return {group.name: group.program for group in self.groups if group.program}

    def group_of(self, host: str) -> Group:
        """The group that a host is in."""
        return next(group for group in self.groups if host in group.hosts)

    def opt_ml(self, host: str) -> Path:
        """The folder that is /opt/ml on this host."""
        return self.folder / "hosts" / host


def named_hosts(sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Hosts algo-1, algo-2, ... as the platform names them, dealt out to groups of these sizes in their order."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        tuple(f"algo-{number}" for number in range(start + 1, start + size + 1))
        for start, size in zip(starts, sizes, strict=True)
    ]
