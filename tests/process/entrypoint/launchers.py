"""The launchers of a job's hosts, as processes on loopback addresses."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from subprocess import PIPE, Popen

from real_launcher import BOUND, command, make_venv

from harness.job_folder import JobFolder
from harness.ports import free_port

MULTI_WORKER = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}


class Hosts:
    """The launchers of one job, each with an /opt/ml of its own."""

    def __init__(self, folder: Path, count: int) -> None:
        self.names = [f"127.0.0.{number + 1}" for number in range(count)]
        self.jobs = [JobFolder(folder / name).env(TRAINING_JOB_NAME=str(folder)) for name in self.names]
        self.processes: list[Popen[str]] = []
        self.stderr: list[str] = []  # of every host, when it has ended
        self.below: tuple[str, ...] = ()  # what to put before the launchers' commands
        self.constants: dict[str, float] = {}  # of the launchers' modules, to be changed
        port = str(free_port())
        venv = make_venv(folder / "venv")
        for job in self.jobs:
            job.env(DLC_VENV=venv, DLC_GROUP_PORT=port, DLC_PEER_TIMEOUT="30", DLC_HEARTBEAT_TIMEOUT="5")

    def configure(self, script: str, groups: dict[str, list[int]] | None = None, **parameters: object) -> None:
        """One script for all hosts; `groups` holds the numbers of each group's hosts."""
        for number, job in enumerate(self.jobs):
            config: dict[str, object] = {"hosts": self.names, "current_host": self.names[number]}
            if groups:
                config["instance_groups"] = [
                    {"instance_group_name": name, "instance_type": "x", "hosts": [self.names[item] for item in members]}
                    for name, members in groups.items()
                ]
                config["current_group_name"] = next(name for name, members in groups.items() if number in members)
            job.config("resourceconfig", config).hyperparameters(**parameters).code(text=script)

    def start(self, verb: str = "train") -> None:
        self.processes = []
        for job in self.jobs:
            argv = [*self.below, *command(verb, self.constants)]
            self.processes.append(Popen(argv, env=job.environ, stdout=PIPE, stderr=PIPE, text=True, cwd=job.base))

    def start_scripts(self, **variables: str) -> None:
        """Start the hosts with more variables, and return once every host's script has printed `started`."""
        for job in self.jobs:
            job.env(**variables)
        self.start()
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"

    def wait_for_leader(self) -> None:
        """Until the first host listens for the others; a stranger's connection changes nothing."""
        port = int(self.jobs[0].environ["DLC_GROUP_PORT"])
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.02)

    def ends(self) -> list[tuple[int, str, str]]:
        """(exit code, stdout, failure file) of every host. A failed test shows what each has said."""
        ends = []
        for job, process in zip(self.jobs, self.processes, strict=True):
            out, error = process.communicate(timeout=BOUND)
            self.stderr.append(error)
            print(f"--- {job.base.name}, exit code {process.returncode}", error, sep="\n")
            path = job.base / "output/failure"
            ends.append((process.returncode, out, path.read_text() if path.exists() else ""))
        return ends
