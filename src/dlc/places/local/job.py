"""A job as this machine runs it: each host has a name, each channel a folder. Made of a job's value in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlc.core.environment import find_ca_bundle
from dlc.job.job_spec import PROGRAMS, SHARED_MEMORY, STOP_SECONDS, GroupSpec, JobSpec

# SageMaker's SDK calls the type of a machine that is no instance so.
LOCAL_INSTANCE = "local"
# Of a job on this machine.
MOST_HOSTS = 100


@dataclass(frozen=True)
class Group:
    """Hosts of one kind. Limits are written as for `docker run`; an empty one is no limit."""

    name: str
    hosts: tuple[str, ...]
    instance_type: str = LOCAL_INSTANCE
    # Empty: the job's.
    program: str = ""
    cpus: str = ""
    memory: str = ""
    gpus: str = ""
    # Whether `--memory 0` asks for no limit of memory; else dlc takes one of its own for a job on this machine.
    unlimited: bool = False
    # Empty: the job's.
    image: str = ""
    # Beside the job's.
    channels: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """Everything about a job. `folder` gets a folder for each host, and the results."""

    id: str
    # A Docker reference: of every group that has no image of its own.
    image: str
    folder: Path
    groups: tuple[Group, ...]
    # Files, or one folder, of which every host gets a copy.
    code: tuple[Path, ...]
    # The entry point, from the code directory, of every group that names none.
    program: str = ""
    # As the file has them: values as JSON text.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    # Folders that every host has mounted, and cannot write to.
    channels: Mapping[str, Path] = field(default_factory=dict)
    # /opt/ml/checkpoints of all hosts, which outlives the job; None: each host has its own.
    checkpoints: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    # Variables whose values no command line shows.
    secrets: Mapping[str, str] = field(default_factory=dict)
    # Certificates that the hosts trust; None: those of the image.
    authorities: Path | None = None
    labels: tuple[str, ...] = ()
    command: tuple[str, ...] = ("train",)
    # Empty: the image's own.
    entrypoint: str = ""
    # As for `docker run`; empty: the image's own.
    user: str = ""
    shared_memory: str = SHARED_MEMORY
    stop_seconds: int = STOP_SECONDS
    # Of the image, if Docker has to be told it, as in linux/arm64.
    platform: str = ""

    @property
    def name(self) -> str:
        """Return the network's name; the containers' names begin with it."""
        return f"dlc-{self.id}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return every host, in the order of its group and its place in it."""
        return tuple(host for group in self.groups for host in group.hosts)

    @property
    def programs(self) -> dict[str, str]:
        """Return the programs of groups that name one."""
        return {group.name: group.program for group in self.groups if group.program}

    def group_of(self, host: str) -> Group:
        """Return the group that a host is in."""
        return next(group for group in self.groups if host in group.hosts)

    def image_of(self, host: str) -> str:
        """Return the image that a host runs."""
        return self.group_of(host).image or self.image

    def channels_of(self, host: str) -> dict[str, Path]:
        """Return the channels that a host has: those of its group stand over the job's."""
        return {**self.channels, **self.group_of(host).channels}

    def opt_ml(self, host: str) -> Path:
        """Return the folder that is /opt/ml on this host."""
        return self.folder / "hosts" / host


def name_hosts(sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Name hosts algo-1, algo-2, ... as SageMaker does, dealt out to groups of these sizes in their order."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        tuple(f"algo-{number}" for number in range(start + 1, start + size + 1))
        for start, size in zip(starts, sizes, strict=True)
    ]


def make_job(spec: JobSpec, environ: Mapping[str, str], token: str) -> Job:
    """Make the job of a value that has its name, its folder, and images as references.

    The job's hosts trust the certificates of DLC_CA_BUNDLE: they are behind the same proxies as dlc.
    """
    groups = spec.host_groups
    names = name_hosts([group.hosts for group in groups])
    return Job(
        id=spec.name,
        image=spec.image,
        folder=spec.folder,
        groups=tuple(
            Group(
                group.name, hosts, group.instance_type or LOCAL_INSTANCE, group.program, group.cpus, group.memory,
                group.gpus, group.unlimited,
                image="" if group.image == spec.image else group.image,
                channels=_find_folders(spec.groups.get(group.name, GroupSpec()).channels),
            )
            for group, hosts in zip(groups, names, strict=True)
        ),
        code=spec.code,
        program=spec.program,
        hyperparameters=spec.parameters,
        channels=_find_folders(spec.channels),
        checkpoints=Path(spec.checkpoints) if spec.checkpoints else None,
        environment={name: value for name, value in spec.variables.items() if name != PROGRAMS},
        secrets=spec.read_secrets(environ, token),
        authorities=find_ca_bundle(environ) if environ.get("DLC_CA_BUNDLE") else None,
        user=spec.user,
        shared_memory=spec.shared_memory,
        stop_seconds=spec.grace,
        # As SageMaker starts a container whose job has arguments.
        command=("train", *spec.arguments),
    )  # fmt: skip


def _find_folders(channels: Mapping[str, str]) -> dict[str, Path]:
    return {name: Path(folder) for name, folder in channels.items()}
