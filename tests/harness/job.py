"""A training job for tests: its hosts are containers on a Docker network of their own, each with its own /opt/ml.

    with Job(image, tmp_path, script, hosts=2, hyperparameters={"epochs": 5}) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}, job.report()

Hosts are named as the platform names them (algo-1, algo-2, ...). Leaving the `with` removes every container and the
network, whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from dlc.core.process import run, tail
from harness.engine import RUN_LABEL, docker
from harness.images import Image
from harness.opt_ml import GROUP, lay_out

# Several hosts share the few cores of one machine; threads that wait busily for each other would make a test slow.
CALM = {
    "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}  # fmt: skip
POLL_SECONDS = 0.2


class Job:
    """One job. `groups` maps instance group names to numbers of hosts; without it `hosts` hosts form one group.

    Script, program, hyperparameters and channels are as in `lay_out`, the same on every host. Hosts in `late` are part
    of the job and start only with `start(host)`. With `pods` a host's network outlives its container, as a pod's does.
    `user` is as for `docker run`; without it the image's own.
    """

    def __init__(
        self,
        image: Image,
        folder: Path,
        script: Path,
        *,
        program: str = "",
        hosts: int = 1,
        groups: Mapping[str, int] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        channels: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
        command: tuple[str, ...] = ("train",),
        entrypoint: str = "",
        late: tuple[str, ...] = (),
        pods: bool = False,
        user: str = "",
    ) -> None:
        self.image = image
        self.command = command
        self.entrypoint = entrypoint  # empty: the image's own
        self.late = late
        self.pods = pods
        self.user = user
        self.groups = _name_hosts(groups or {GROUP: hosts})
        self.hosts = [host for members in self.groups.values() for host in members]
        self.environment = {**(CALM if len(self.hosts) > 1 else {}), **(environment or {})}
        self.network = f"dlc-test-{time.monotonic_ns():x}"
        self.environment.setdefault("DLC_JOB_TOKEN", self.network)  # as the platform's own job name would be
        self._folder = folder
        for host in self.hosts:
            lay_out(
                self.opt_ml(host), script, program=program, host=host, groups=self.groups,
                hyperparameters=hyperparameters, channels=channels,
            )  # fmt: skip
            if user:
                for path in (self.opt_ml(host), self.opt_ml(host) / "code"):
                    path.chmod(0o777)

    def __enter__(self) -> Self:
        docker("network", "create", "--label", RUN_LABEL, self.network)
        with contextlib.ExitStack() as unless_all_start:
            unless_all_start.callback(self._remove)
            for host in self.hosts:
                if host not in self.late:
                    self.start(host)
            unless_all_start.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._remove()

    # What a host has and says

    def container(self, host: str) -> str:
        """The container's name."""
        return f"{self.network}-{host}"

    def opt_ml(self, host: str = "algo-1") -> Path:
        """The folder that is /opt/ml on this host."""
        return self._folder / host

    def failure(self, host: str = "algo-1") -> str:
        """The failure file's text; empty when there is none."""
        path = self.opt_ml(host) / "output" / "failure"
        return path.read_text(errors="replace") if path.exists() else ""

    def metrics(self) -> list[dict[str, Any]]:
        """What the example scripts' ranks wrote as metrics-rank<N>.json, of all hosts, by rank."""
        files = [file for host in self.hosts for file in self.opt_ml(host).glob("output/data/metrics-rank*.json")]
        return sorted((json.loads(file.read_text()) for file in files), key=lambda metrics: metrics["rank"])

    def log(self, host: str = "algo-1") -> str:
        """What the container has printed so far: stdout, then stderr."""
        done = docker("logs", self.container(host), check=False)
        return done.stdout + done.stderr

    def report(self) -> str:
        """For assertion messages: the end of each host's log, and its failure file."""
        parts = [f"--- {host} ---\n{tail(self.log(host), 120)}\nfailure: {self.failure(host)!r}" for host in self.hosts]
        return "\n".join(parts)

    def address(self, host: str) -> str:
        """The running container's address on the job's network."""
        networks = json.loads(
            docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", self.container(host)).stdout
        )
        return str(networks[self.network]["IPAddress"])

    def is_running(self, host: str = "algo-1") -> bool:
        """Whether the host's container runs."""
        return bool(self._state(host)["Running"])

    # What can be done to it

    def wait(self, seconds: float = 180.0) -> dict[str, int]:
        """Exit code of every host once all have ended; the test fails where one still runs after `seconds`."""
        deadline = time.monotonic() + seconds
        while running := [host for host in self.hosts if self.is_running(host)]:
            if time.monotonic() > deadline:
                pytest.fail(f"still running after {seconds:g} s: {', '.join(running)}\n{self.report()}", pytrace=False)
            time.sleep(POLL_SECONDS)
        return {host: self.exit_code(host) for host in self.hosts}

    def exit_code(self, host: str = "algo-1") -> int:
        """The exit code of a host that has ended."""
        return int(self._state(host)["ExitCode"])

    def wait_for_line(self, text: str, host: str = "algo-1", seconds: float = 120.0) -> None:
        """Return once the host has printed `text`; the test fails where it has not after `seconds`, or has ended."""
        deadline = time.monotonic() + seconds
        while text not in self.log(host):
            if time.monotonic() > deadline or not self.is_running(host):
                pytest.fail(f"{host} did not print {text!r} within {seconds:g} s\n{self.report()}", pytrace=False)
            time.sleep(POLL_SECONDS)

    def stop(self, *hosts: str, grace: int = 20) -> float:
        """What the platform does to stop a job: SIGTERM, and SIGKILL after `grace` seconds. All hosts without names.

        Returns after how many seconds the last of them had ended.
        """
        started = time.monotonic()
        containers = [self.container(host) for host in hosts or self.hosts]
        docker("stop", "--time", str(grace), *containers, seconds=grace * len(containers) + 60.0)
        return time.monotonic() - started

    def kill(self, host: str) -> None:
        """The machine is gone: SIGKILL to all of the container at once."""
        docker("kill", self.container(host))

    def cut_network(self, host: str) -> None:
        """Unplug the host: packets vanish, connections are never closed."""
        docker("network", "disconnect", "--force", self.network, self.container(host))

    def firewall(self, host: str, *arguments: str) -> None:
        """iptables inside the host's own network: `firewall("algo-2", "-A", "OUTPUT", "-j", "DROP")`."""
        network = f"--net=/proc/{self._state(host)['Pid']}/ns/net"
        run(["nsenter", network, "iptables", "--wait", *arguments])

    def ask(self, host: str, *argv: str, seconds: int = 30) -> str:
        """The output of a command run in the host's container, bounded inside it as well."""
        return docker("exec", self.container(host), "timeout", str(seconds), *argv, seconds=seconds + 30.0).stdout

    def start(self, host: str) -> None:
        """Start a host's container; only needed for hosts that come late."""
        words = ["run", "--detach", "--label", RUN_LABEL]
        network = ["--network", self.network, "--network-alias", host, "--hostname", host]
        if self.pods:
            docker(*words, "--name", self._pod(host), *network, "--entrypoint", "sleep", self.image.ref, "infinity")
            network = ["--network", f"container:{self._pod(host)}"]
        words += ["--name", self.container(host), *network, "--shm-size", "1g"]
        words += ["--volume", f"{self.opt_ml(host)}:/opt/ml"]
        for name, value in self.environment.items():
            words += ["--env", f"{name}={value}"]
        if self.user:
            words += ["--user", self.user]
        if self.entrypoint:
            words += ["--entrypoint", self.entrypoint]
        docker(*words, self.image.ref, *self.command)

    # How it is seen and removed

    def _pod(self, host: str) -> str:
        """What holds the host's network where that is no part of its container."""
        return f"{self.container(host)}-pod"

    def _state(self, host: str) -> dict[str, Any]:
        found = docker("container", "inspect", "--format", "{{json .State}}", self.container(host)).stdout
        state: dict[str, Any] = json.loads(found)
        return state

    def _remove(self) -> None:
        for host in self.hosts:
            docker("rm", "--force", "--volumes", self.container(host), self._pod(host), check=False)
        docker("network", "rm", self.network)


def _name_hosts(groups: Mapping[str, int]) -> dict[str, list[str]]:
    """Hosts algo-1, algo-2, ... dealt out to the groups in their order."""
    dealt: dict[str, list[str]] = {}
    for name, number in groups.items():
        first = sum(len(members) for members in dealt.values()) + 1
        dealt[name] = [f"algo-{index}" for index in range(first, first + number)]
    return dealt
