"""Starts the hosts of a job with tf.data.service as processes of this machine: each has a loopback address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from service_runs import HANGS, SCRIPTS, SOURCES, Host, wait_for

from dlc_runtime.dataservice.tensorflow.server import accept_only
from harness.ports import free_port

COUNT = 400


def tensorflow_python() -> str | None:
    """The Python that runs the scripts; None where it has no TensorFlow."""
    asked = os.environ.get("DLC_TEST_TENSORFLOW_PYTHON", sys.executable)
    code = "import importlib.util as i, sys; sys.exit(not i.find_spec('tensorflow'))"
    return asked if subprocess.run([asked, "-c", code]).returncode == 0 else None


def takes_filters() -> bool:
    """Whether this user may attach a packet filter to a socket of its own."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        try:
            return accept_only("127.0.0.1", sock.getsockname()[1]) == 1
        except PermissionError:
            return False


class DataHost(Host):
    """A data host. All hosts are one machine here, where TensorFlow's workers need a port each."""

    worker_port: int


class Consumer(Host):
    """A training process."""

    out: Path

    def wait_until_it_waits(self) -> None:
        wait_for(lambda: self.out.with_suffix(".waits").exists() or self.process.poll() is not None, lambda: self.log)
        assert self.process.poll() is None, self.log

    def go_on(self) -> list[list[int]]:
        """Both epochs."""
        self.out.with_suffix(".go").touch()
        assert self.wait() == 0, self.log
        return [json.loads(line) for line in self.out.read_text().splitlines()]


class Job:
    """Two data hosts and a training host, which end with the test."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.hosts: list[Host] = []
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DLC_", "SM_"))}
        addresses = {f"algo-{number}": f"127.0.0.{number}" for number in (1, 2, 3)}
        groups = [
            {"instance_group_name": "cpus", "hosts": ["algo-1", "algo-2"]},
            {"instance_group_name": "gpus", "hosts": ["algo-3"]},
        ]
        self.port = free_port()
        (folder / "run").mkdir()
        self.environ = {
            **own,
            "PYTHONPATH": str(SOURCES),
            "SM_HOSTS": json.dumps(list(addresses)),
            "SM_RESOURCE_CONFIG": json.dumps({"instance_groups": groups}),
            "DLC_HOST_ADDRESSES": json.dumps(addresses),
            "DLC_TF_DATA_GROUP": "cpus",
            "DLC_TF_DATA_PORT": str(self.port),
            "DLC_RUN_DIR": str(folder / "run"),
            "DLC_TF_DATA_OPEN": "1",  # not every kernel lets a test's user keep strangers out
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }

    def serve(self, host: str, **variables: str) -> DataHost:
        """algo-1, which has the dispatcher too, or algo-2."""
        command, port = [self.python, "-m", "dlc_runtime.dataservice.tensorflow.host"], free_port()
        environ = {"SM_CURRENT_HOST": host, "DLC_TF_DATA_WORKER_PORT": str(port), **variables}
        found = DataHost(command, self.folder / f"{host}.log", {**self.environ, **environ})
        found.worker_port = port
        self.hosts.append(found)
        return found

    def consume(self, serving: DataHost, **options: Any) -> Consumer:
        """`serving` is the first host; its worker's port is the one that is looked at before the start."""
        out = self.folder / f"taken-{len(self.hosts)}.jsonl"
        command = [self.python, "take_elements.py", str(out), str(COUNT), json.dumps({"patience": 200, **options})]
        environ = {**self.environ, "SM_CURRENT_HOST": "algo-3", "DLC_TF_DATA_WORKER_PORT": str(serving.worker_port)}
        found = Consumer(command, self.folder / f"{out.stem}.log", environ)
        found.out = out
        self.hosts.append(found)
        return found

    def answer_of(self, serving: DataHost | None, script: str, *arguments: str) -> Any:
        """What a script prints on the training host. Without servers it is not kept waiting for any."""
        port = serving.worker_port if serving else free_port()
        environ = {**self.environ, "SM_CURRENT_HOST": "algo-3", "DLC_TF_DATA_WORKER_PORT": str(port)}
        command = [self.python, str(SCRIPTS / script), *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=HANGS)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        for host in self.hosts:
            host.kill()


def wait_until_it_listens(host: Host, *kinds: str, times: int = 1) -> None:
    for kind in kinds:
        line = f"the {kind} on "
        wait_for(lambda line=line: _listens(host, line) >= times or host.process.poll() is not None, lambda: host.log)
    assert host.process.poll() is None, host.log


def _listens(host: Host, line: str) -> int:
    return sum(line in text and "listens at" in text for text in host.log.splitlines())


def server(host: Host, kind: str) -> int:
    """The process id of one of a host's servers."""
    for pid in host.children():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        if f'"kind": "{kind}"' in command:
            return pid
    raise AssertionError(f"no {kind}: {host.log}")
