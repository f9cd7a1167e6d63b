"""A job as containers: one value per host, the words of `docker run` that start it, and `--explain`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlc.core.labels import JOB
from dlc.engine.docker_client import as_typed
from dlc.job.job_spec import PROGRAMS
from dlc.job.limits import quote_gpus
from dlc.places.local.job import Group, Job
from dlc.places.local.job_folder import make_config
from dlc.places.place import BASE

AUTHORITIES = "/etc/ssl/dlc-authorities.pem"
# What pip, Python, requests, curl and git read.
TRUST = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
# A network that another container holds.
OF_A_CONTAINER = "container:"


@dataclass(frozen=True)
class Container:
    """One host of a job. The docker client gets the values of the job's secrets in its environment."""

    job: Job
    host: str
    name: str
    network: str
    entrypoint: str
    command: tuple[str, ...]

    @property
    def group(self) -> Group:
        """Return the host's group."""
        return self.job.group_of(self.host)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels by which the container is found."""
        return make_labels(self.job)

    @property
    def mounts(self) -> tuple[str, ...]:
        """Return the values of --mount."""
        return _list_mounts(self.job, self.host)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables whose values may be seen."""
        return _make_environment(self.job)

    def words(self, *, detached: bool = False) -> tuple[str, ...]:
        """Return what follows `docker`.

        The image has to be there: a pull would ask a public registry for dlc's names.
        """
        return (
            *("run", "--pull", "never", *(("--detach",) if detached else ())),
            *("--name", self.name, *_repeat_option("--label", self.labels), *self._network()),
            *_repeat_option("--mount", self.mounts),
            *_repeat_option("--env", [f"{name}={value}" for name, value in self.environment.items()]),
            *_repeat_option("--env", tuple(self.job.secrets)),
            *self._limits(),
            *option_if_set("--platform", self.job.platform),
            *option_if_set("--user", self.job.user),
            *option_if_set("--entrypoint", self.entrypoint),
            *(self.job.image_of(self.host), *self.command),
        )

    def _network(self) -> tuple[str, ...]:
        """Return the network's options. A container in another one's network has the other's names."""
        names = ("--network-alias", self.host, "--hostname", self.host)
        return ("--network", self.network, *(() if self.network.startswith(OF_A_CONTAINER) else names))

    def _limits(self) -> tuple[str, ...]:
        return (
            *("--shm-size", self.job.shared_memory, "--stop-timeout", str(self.job.stop_seconds)),
            *option_if_set("--cpus", self.group.cpus),
            *option_if_set("--memory", self.group.memory),
            *option_if_set("--gpus", quote_gpus(self.group.gpus)),
        )


@dataclass(frozen=True)
class JobCommands:
    """The commands of a job, made once: for its network, and for a container on each host.

    `secrets` are the values of the containers' secret variables, which no command has.
    """

    # By it the engine's labels find what is the job's.
    job_id: str
    # Words after `docker` that make the network; the last one is its name.
    network: tuple[str, ...]
    # Host -> its container, in the order of the job's hosts.
    containers: Mapping[str, Container]
    secrets: Mapping[str, str]
    stop_seconds: int


def make_commands(job: Job) -> JobCommands:
    """Make the commands of a job."""
    network = ("network", "create", *_repeat_option("--label", make_labels(job)), job.name)
    containers = {container.host: container for container in make_containers(job)}
    return JobCommands(job.id, network, containers, job.secrets, job.stop_seconds)


def make_labels(job: Job) -> tuple[str, ...]:
    """Return the labels by which the job's containers and its network are found."""
    return (f"{JOB}={job.id}", *job.labels)


def make_containers(job: Job) -> tuple[Container, ...]:
    """Return the job's containers, in the order of its hosts."""
    return tuple(make_container(job, host) for host in job.hosts)


def make_container(job: Job, host: str) -> Container:
    """Return the container of one host."""
    return Container(job, host, f"{job.name}-{host}", job.name, job.entrypoint, job.command)


def _list_mounts(job: Job, host: str) -> tuple[str, ...]:
    channels = (
        format_mount(folder, f"{BASE}/input/data/{name}", "readonly") for name, folder in job.channels_of(host).items()
    )
    checkpoints = (format_mount(job.checkpoints, f"{BASE}/checkpoints"),) if job.checkpoints else ()
    authorities = (format_mount(job.authorities, AUTHORITIES, "readonly"),) if job.authorities else ()
    return (format_mount(job.opt_ml(host), BASE), *channels, *checkpoints, *authorities)


def format_mount(source: Path, target: str, *options: str) -> str:
    """Return the value of --mount, which the docker client reads as CSV: a path may hold a colon or a comma."""
    fields = ("type=bind", f"source={source}", f"target={target}", *options)
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field for field in fields)


def _make_environment(job: Job) -> dict[str, str]:
    programs = {PROGRAMS: json.dumps(job.programs)} if job.programs else {}
    trust = dict.fromkeys(TRUST if job.authorities else (), AUTHORITIES)
    return {**programs, **trust, **job.environment}


def _repeat_option(option: str, values: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (option, value))


def option_if_set(option: str, value: str) -> tuple[str, ...]:
    """Return the words of an option that has a value."""
    return (option, value) if value else ()


def explain_as_dict(job: Job) -> dict[str, object]:
    """Return the job for JSON."""
    return {
        "job": job.id,
        "folder": str(job.folder),
        "network": job.name,
        "containers": [
            {
                "host": container.host,
                "group": container.group.name,
                "name": container.name,
                "command": as_typed(*container.words()),
                "config": make_config(job, container.host),
            }
            for container in make_commands(job).containers.values()
        ],
    }


def explain_as_text(job: Job) -> str:
    """Return the job for people."""
    commands = make_commands(job)
    lines = [f"job {job.id}: {len(job.hosts)} hosts, results in {job.folder}", as_typed(*commands.network)]
    for container in commands.containers.values():
        lines += ["", f"{container.host} ({container.group.name})", f"  {as_typed(*container.words())}"]
        for name, content in make_config(job, container.host).items():
            lines.append(f"  input/config/{name}: {json.dumps(content)}")
    return "\n".join(lines)
