"""A training job for tests: its hosts are containers on a Docker network of their own, each with its own /opt/ml.

    with Job(image, tmp_path, script, hosts=2, hyperparameters={"epochs": 5}) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}

Hosts are named as the platform names them (algo-1, algo-2, ...). Leaving the `with` removes every container and the
network, whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any, Self

import pytest

from dlc.core.errors import ProcessTimeoutError
from dlc.core.process import last_lines, run_program
from dlc.places.local import lifecycle
from dlc.places.local.containers import OF_A_CONTAINER, make_commands
from dlc.places.local.job_folder import write_host_folder
from harness.engine import CALM, HANG_BOUND, RUN_LABEL, connect, docker
from harness.images import Image
from harness.opt_ml import job_of

SHARED_MEMORY = "1g"
# DLC_HEARTBEAT_TIMEOUT where a test waits until a host counts as vanished: it takes as long. A host that gets no
# processor for as long is lost too, so it is not shorter.
SHORT_HEARTBEAT = {"DLC_HEARTBEAT_TIMEOUT": "15"}


class Job:
    """One job of `dlc run`, of which a test does each step itself.

    What the job is, from script to channels, is as in `job_of`. Hosts in `late` are part of the job and start only with
    `start(host)`. With `pods` a host's network outlives its container, as a pod's does.
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
        programs: Mapping[str, Path] | None = None,
        cpus: Mapping[str, str] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        channels: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
        command: tuple[str, ...] = ("train",),
        entrypoint: str = "",
        late: tuple[str, ...] = (),
        pods: bool = False,
        user: str = "",
    ) -> None:
        self.late = late
        self.pods = pods
        self.spec = job_of(
            folder, script, program=program, hosts=hosts, groups=groups, programs=programs, cpus=cpus,
            hyperparameters=hyperparameters, channels=channels, id=f"test-{time.monotonic_ns():x}", image=image.ref,
            labels=(RUN_LABEL,), command=command, entrypoint=entrypoint, user=user, shared_memory=SHARED_MEMORY,
        )  # fmt: skip
        self.hosts = list(self.spec.hosts)
        self.environment = {**CALM, **(environment or {})}
        self.network = self.spec.name
        self.environment.setdefault("DLC_JOB_TOKEN", self.network)  # as the platform's own job name would be
        for host in self.hosts:
            write_host_folder(self.spec, host)

    def __enter__(self) -> Self:
        self._edge = lifecycle.JobContainers(connect(), make_commands(replace(self.spec, environment=self.environment)))
        self._edge.create_network()
        with contextlib.ExitStack() as unless_all_start:
            unless_all_start.callback(self._remove)
            for host in self.hosts:
                if host not in self.late:
                    self.start(host)
            unless_all_start.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """A failed test shows the job's log below what failed."""
        if error[0] is not None:
            print(self.report())
        self._remove()

    # What a host has and says

    def container(self, host: str) -> str:
        """The container's name."""
        return f"{self.network}-{host}"

    def opt_ml(self, host: str = "algo-1") -> Path:
        """The folder that is /opt/ml on this host."""
        return self.spec.opt_ml(host)

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
        """The end of each host's log, and its failure file."""
        parts = [
            f"--- {host} ---\n{last_lines(self.log(host), 120)}\nfailure: {self.failure(host)!r}" for host in self.hosts
        ]
        return "\n".join(parts)

    def address(self, host: str) -> str:
        """The running container's address on the job's network."""
        networks = json.loads(
            docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", self.container(host)).stdout
        )
        return str(networks[self.network]["IPAddress"])

    def is_running(self, host: str = "algo-1") -> bool:
        """Whether the host's container runs."""
        return self._state(host).running

    # What can be done to it

    def wait(self, seconds: float = HANG_BOUND) -> dict[str, int]:
        """Exit code of every host once all have ended; the test fails where one still runs after `seconds`."""
        containers = [self.container(host) for host in self.hosts]
        try:
            codes = docker("wait", *containers, seconds=seconds).stdout.split()
        except ProcessTimeoutError:
            running = [host for host, state in self._edge.states().items() if state.running]
            pytest.fail(f"still running after {seconds:g} s: {', '.join(running)}")
        return {host: int(code) for host, code in zip(self.hosts, codes, strict=True)}

    def exit_code(self, host: str = "algo-1") -> int:
        """The exit code of a host that has ended."""
        return self._state(host).exit_code

    def wait_for_line(self, text: str, host: str = "algo-1", seconds: float = HANG_BOUND) -> None:
        """Return once the host has printed `text`; the test fails where it has not after `seconds`, or has ended."""
        argv = ["docker", "logs", "--follow", self.container(host)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as follower:
            bound = Timer(seconds, follower.kill)
            bound.start()
            try:
                assert follower.stdout
                if not any(text.encode() in line for line in follower.stdout):
                    pytest.fail(f"{host} has ended, or did not print {text!r} within {seconds:g} s")
            finally:
                bound.cancel()
                follower.kill()

    def wait_for_ranks(self, text: str, count: int) -> None:
        """The same for each rank of an MPI job: all of them say it through the first host."""
        for rank in range(count):
            self.wait_for_line(f":{rank}] {text}")

    def stop(self, *hosts: str, grace: int) -> None:
        """What the platform does to stop a job: SIGTERM, and SIGKILL after `grace` seconds. All hosts without names."""
        containers = [self.container(host) for host in hosts or self.hosts]
        docker("stop", "--time", str(grace), *containers, seconds=grace * len(containers) + HANG_BOUND)

    def kill(self, host: str) -> None:
        """The machine is gone: SIGKILL to all of the container at once."""
        docker("kill", self.container(host))

    def cut_network(self, host: str) -> None:
        """Unplug the host: packets vanish, connections are never closed."""
        docker("network", "disconnect", "--force", self.network, self.container(host))

    def firewall(self, host: str, *arguments: str) -> None:
        """iptables inside the host's own network: `firewall("algo-2", "-A", "OUTPUT", "-j", "DROP")`."""
        self.in_network(host, "iptables", "--wait", *arguments)

    def in_network(self, host: str, *argv: str) -> None:
        """Run a program of this machine inside the host's own network. The engine is asked before, and not after."""
        run_program(["nsenter", self._network(host), *argv], timeout=HANG_BOUND)

    def in_mounts(self, host: str, *argv: str) -> None:
        """Run a program of the host's as this machine's root, among the host's own file systems."""
        run_program(["nsenter", f"--target={self._state(host).pid}", "--mount", *argv], timeout=HANG_BOUND)

    @contextlib.contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """No packet reaches or leaves the host meanwhile; the rules' own counters say that they worked.

        A busy engine, slow to answer, does not make it longer.
        """
        enter = ("nsenter", self._network(host), "iptables", "--wait")
        chains = ("INPUT", "OUTPUT")
        for chain in chains:
            run_program([*enter, "-A", chain, "-j", "DROP"])
        try:
            yield
            counted = [run_program([*enter, "-nvxL", chain]).stdout for chain in chains]
        finally:
            for chain in chains:
                run_program([*enter, "-D", chain, "-j", "DROP"])
        for rules in counted:
            assert re.search(r"^ *[1-9]\d* +\d+ DROP ", rules, re.MULTILINE), f"the network was not cut\n{rules}"

    def let_go_on(self, *hosts: str) -> None:
        """Make the file that a script with --hold waits for."""
        for host in hosts:
            (self.opt_ml(host) / "input/go").touch()

    def ask(self, host: str, *argv: str, seconds: float = HANG_BOUND) -> str:
        """The output of a command run in the host's container, bounded inside it as well."""
        return docker("exec", self.container(host), "timeout", str(seconds), *argv, seconds=seconds + HANG_BOUND).stdout

    def start(self, host: str) -> None:
        """Start a host's container; only needed for hosts that come late."""
        container = self._edge.containers[host]
        if self.pods:
            pod = replace(container, name=f"{container.name}-pod", entrypoint="sleep", command=("infinity",))
            self._edge.start(pod)
            container = replace(container, network=f"{OF_A_CONTAINER}{pod.name}")
        self._edge.start(container)

    # How it is seen and removed

    def _network(self, host: str) -> str:
        return f"--net=/proc/{self._state(host).pid}/ns/net"

    def _state(self, host: str) -> lifecycle.ContainerState:
        return self._edge.states()[host]

    def _remove(self) -> None:
        lifecycle.remove_containers(connect(), self.spec.id)
