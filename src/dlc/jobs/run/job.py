"""A training job as a value: groups of hosts, their code and limits, made from what a user asks for.

Command lines (`words.py`) and files (`jobs/job_file.py`) both say it as `Options`. Reads no more than which files and
folders are there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlc.core.environment import find_ca_bundle
from dlc.core.errors import UsageError
from dlc.jobs.run.limits import UNLIMITED, read_cpus, read_gpus, read_size, read_stated_memory
from dlc.jobs.strategies import STRATEGIES

# The platform's name for the only group of a job.
ONLY_GROUP = "homogeneousCluster"
# The platform's SDK calls the type of a machine that is no instance so.
LOCAL_INSTANCE = "local"
# A limit: memory is taken when data loaders write to it.
SHARED_MEMORY = "8g"
# From SIGTERM to SIGKILL.
STOP_SECONDS = 30
TOKEN = "DLC_JOB_TOKEN"  # noqa: S105 - the name of a variable
GRACE = "DLC_TERMINATION_GRACE"
# Of a job on this machine, and of one that a place runs.
MOST_HOSTS, MOST_PLACE_HOSTS = 100, 100_000
# Whoever starts the hosts says by these who they are: the launcher would wait for others, or be told twice.
HOST_VARIABLE = re.compile(r"DLC_(GROUPS|HOSTS|NUM_HOSTS|RANK|SERVICE)|JOBSET_NAME|SLURM_\w+")

# What a word becomes in the job. Raises ValueError with what was expected.
Reader = Callable[[str], str]
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
# In place of a group's name: what all groups have that are not named.
ALL = ""


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


@dataclass(frozen=True)
class Job:
    """Everything about a job. `folder` gets a folder for each host, and the results."""

    id: str
    # A Docker reference.
    image: str
    folder: Path
    groups: tuple[Group, ...]
    # Files, or one folder, of which every host gets a copy.
    code: tuple[Path, ...]
    # The entry point, from the code directory, of every group that names none.
    program: str = ""
    # As the file has them: values as JSON text.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    # Folders that are mounted, and not writable.
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

    def opt_ml(self, host: str) -> Path:
        """Return the folder that is /opt/ml on this host."""
        return self.folder / "hosts" / host


def name_hosts(sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Name hosts algo-1, algo-2, ... as the platform does, dealt out to groups of these sizes in their order."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        tuple(f"algo-{number}" for number in range(start + 1, start + size + 1))
        for start, size in zip(starts, sizes, strict=True)
    ]


@dataclass(frozen=True)
class Options:
    """What a job is asked to be. Limits, types and programs are by group; that of ALL is for groups without one."""

    script: str
    # Of each group without a number of its own.
    hosts: int = 1
    # Group -> its number of hosts, 0 for `hosts`; empty: one group.
    groups: Mapping[str, int] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    # Empty, or one of STRATEGIES.
    distributed: str = ""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    # Name -> a folder.
    channels: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str = ""
    # None: the value of the shell.
    environment: Mapping[str, str | None] = field(default_factory=dict)
    cpus: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, str] = field(default_factory=dict)
    instance_types: Mapping[str, str] = field(default_factory=dict)
    shared_memory: str = SHARED_MEMORY
    user: str = ""
    stop_seconds: int = STOP_SECONDS
    # They reach the script as they are, after those that the hyperparameters make.
    arguments: Sequence[str] = ()


def make_job(
    options: Options,
    environ: Mapping[str, str],
    *,
    image: str,
    id: str,  # noqa: A002
    folder: Path,
    token: str,
    most_hosts: int = MOST_HOSTS,
) -> Job:
    """Make the job. Raises UsageError, whose remedy is the caller's, for the first value that is wrong.

    The job's hosts trust the certificates of DLC_CA_BUNDLE: they are behind the same proxies as dlc.
    """
    groups = _read_groups(options, most_hosts)
    environment, by_name = _read_environment(options, environ)
    secrets = {**({} if TOKEN in environment else {TOKEN: token}), **by_name}
    return Job(
        id=id,
        image=image,
        folder=folder,
        groups=groups,
        code=_find_code(options, groups),
        program=_find_entry_point(options.script, options),
        hyperparameters={**options.hyperparameters, **_read_strategy(options.distributed)},
        channels=_read_channels(options),
        checkpoints=_absolute_path(options.checkpoints) if options.checkpoints else None,
        environment={GRACE: str(options.stop_seconds), **environment},
        secrets=secrets,
        authorities=find_ca_bundle(environ) if environ.get("DLC_CA_BUNDLE") else None,
        user=options.user,
        shared_memory=_read_value(options.shared_memory, "--shm-size", read_size),
        stop_seconds=options.stop_seconds,
        # As the platform starts a container whose job has arguments.
        command=("train", *options.arguments),
    )


def _read_groups(options: Options, most_hosts: int) -> tuple[Group, ...]:
    """Read the groups with all that is said of each. A group without a number has --hosts hosts."""
    sizes = _read_sizes(options)
    if not 1 <= sum(sizes.values()) <= most_hosts:
        raise _usage_error("--hosts, --group", f"1 to {most_hosts} hosts in all", str(sum(sizes.values())))
    names = list(sizes)
    types = _read_by_group(options.instance_types, "--instance-type", names, read_instance)
    programs = _read_by_group(options.programs, "--program", names, _read_file)
    cpus = _read_by_group(options.cpus, "--cpus", names, read_cpus)
    memory = _read_by_group(options.memory, "--memory", names, read_stated_memory)
    gpus = _read_by_group(options.gpus, "--gpus", names, read_gpus)
    return tuple(
        Group(
            name, hosts, types.get(name, LOCAL_INSTANCE),
            _find_entry_point(programs[name], options) if name in programs else "",
            cpus.get(name, ""), "" if memory.get(name) == UNLIMITED else memory.get(name, ""), gpus.get(name, ""),
            memory.get(name) == UNLIMITED,
        )
        for name, hosts in zip(names, name_hosts(list(sizes.values())), strict=True)
    )  # fmt: skip


def _read_sizes(options: Options) -> dict[str, int]:
    """Map groups to numbers of hosts."""
    return {name: number or options.hosts for name, number in (options.groups or {ONLY_GROUP: 0}).items()}


def _read_by_group(values: Mapping[str, str], option: str, groups: Sequence[str], read: Reader) -> dict[str, str]:
    """Map groups to values; a group for which nothing is said is not in it."""
    found = {name: _read_value(value, option, read) for name, value in values.items()}
    return {name: found[key] for name in groups if (key := name if name in found else ALL) in found}


def _find_code(options: Options, groups: Sequence[Group]) -> tuple[Path, ...]:
    """Return the folder of --source, else the named files."""
    if options.source:
        folder = _absolute_path(options.source)
        if not folder.is_dir():
            raise _usage_error("--source", "a folder", f"no folder {folder}")
        for program in [
            _find_entry_point(options.script, options),
            *(group.program for group in groups if group.program),
        ]:
            _require_program(folder / program)
        return (folder,)
    named = [options.script, *options.programs.values()]
    files = list(dict.fromkeys(_absolute_path(word) for word in named))
    for file in files:
        _require_program(file)
    twice = sorted(file.name for file in files if sum(file.name == other.name for other in files) > 1)
    if twice:
        raise _usage_error("--program", "files with names of their own", f"two called {twice[0]}")
    return tuple(files)


def _absolute_path(word: str) -> Path:
    """Return the path from the root; `~` is a home folder."""
    # Path.expanduser raises an error for a user who is not there.
    return Path(os.path.expanduser(word)).absolute()  # noqa: PTH111


def _require_program(file: Path) -> None:
    if not file.is_file():
        what = "a folder; name the file in it, and the folder with --source" if file.is_dir() else "nothing there"
        raise _usage_error(str(file), "the file of an entry point", what)


def _find_entry_point(word: str, options: Options) -> str:
    """Return an entry point's path in the code directory. Raises UsageError if it leads out of --source."""
    if not options.source:
        return _absolute_path(word).name
    path = Path(word)
    if path.is_absolute() or ".." in path.parts:
        raise _usage_error("--source", f"entry points as paths in {options.source}, which every host gets", word)
    return path.as_posix()


def _read_strategy(name: str) -> dict[str, str]:
    if name and name not in STRATEGIES:
        raise _usage_error("--distributed", f"one of {', '.join(STRATEGIES)}", repr(name))
    return {STRATEGIES[name]: "true"} if name else {}


def _read_channels(options: Options) -> dict[str, Path]:
    found = {}
    for name, word in options.channels.items():
        folder = _absolute_path(word)
        if not re.fullmatch(NAME, name):
            raise _usage_error("--channel", "a name of letters, digits, _ . and -", repr(name))
        if not word or not folder.is_dir():
            raise _usage_error(
                f"--channel {name}", "a folder", f"no folder {folder}" if word else "no word after the ="
            )
        found[name] = folder
    return found


def _read_environment(options: Options, environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return variables with their values, and those that have the shell's: no command line shows these."""
    named = [name for name, value in options.environment.items() if value is None]
    for name in named:
        if name not in environ:
            raise _usage_error("--env", "NAME=VALUE, or the name of a variable that is set", repr(name))
    stated = {name: value for name, value in options.environment.items() if value is not None}
    return stated, {name: environ[name] for name in named}


def _read_value(value: str, option: str, read: Reader) -> str:
    try:
        return read(value)
    except ValueError as expected:
        raise _usage_error(option, str(expected), repr(value)) from None


def _read_file(word: str) -> str:
    if not word:
        raise ValueError("GROUP=FILE")
    return word


def read_instance(word: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", word):
        raise ValueError("an instance type, such as ml.c5.xlarge")
    return word


def _usage_error(where: str, expected: str, found: str) -> UsageError:
    return UsageError(f"{where}: expected {expected}, found {found}")
