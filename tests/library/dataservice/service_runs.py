"""Starts data hosts and training ranks as processes of this machine, with a Python that has gRPC."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.ports import free_port

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
SOURCES = HERE.parents[2] / "src"
# The launcher gives it to every Python of a job: PyTorch 2.13 can abort without
STARTUP = SOURCES / "entrypoint/python_startup"
HANGS = 240.0  # seconds; only a bound
TOKEN = "a token of the tests"


def python_with(*modules: str) -> str | None:
    """The Python that runs the scripts; None where it lacks a module."""
    asked = os.environ.get("DLC_TEST_TORCH_PYTHON", sys.executable)
    code = f"import importlib.util as i, sys; sys.exit(not all(map(i.find_spec, {modules!r})))"
    return asked if subprocess.run([asked, "-c", code]).returncode == 0 else None


def release_of(package: str) -> str:
    """As in 2.6: the version of a package in the Python that runs the scripts."""
    asked = os.environ.get("DLC_TEST_TORCH_PYTHON", sys.executable)
    code = f"from importlib.metadata import version; print(version({package!r}))"
    version = subprocess.run([asked, "-c", code], capture_output=True, text=True, check=True).stdout
    return ".".join(version.split(".")[:2])


def answer_of(python: str, script: str) -> Any:
    """What a script prints that has a data host of its own."""
    environ = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    command = [python, str(SCRIPTS / script), str(free_port())]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for(what: Callable[[], Any], message: Callable[[], str] = lambda: "") -> Any:
    deadline = time.monotonic() + HANGS
    while not (found := what()):
        assert time.monotonic() < deadline, f"it hangs: {message()}"
        time.sleep(0.02)
    return found


class Host:
    """A process with its log."""

    def __init__(self, command: Sequence[str], log: Path, environ: dict[str, str]) -> None:
        self.log_file = log
        with log.open("a") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, cwd=SCRIPTS, env=environ, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait(self) -> int:
        try:
            return self.process.wait(HANGS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs:\n{self.log}") from None

    def kill(self) -> None:
        """As when the machine is gone: nothing of it is told."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def signal_all(self, number: int) -> None:
        """To the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []


class Taken(NamedTuple):
    """What a training rank wrote."""

    batches: list[Any]
    end: dict[str, Any]

    @property
    def samples(self) -> list[Any]:
        return [sample for batch in self.batches for sample in batch]


class Rank(Host):
    def __init__(self, command: Sequence[str], log: Path, environ: dict[str, str], out: Path) -> None:
        self.out = out
        super().__init__(command, log, environ)

    @property
    def taken(self) -> Taken:
        """So far; a last line that is cut belongs to a rank that was killed."""
        lines = self.out.read_text().splitlines(keepends=True) if self.out.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        end = found.pop() if found and isinstance(found[-1], dict) else {}
        return Taken(found, end)

    @property
    def count(self) -> int:
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    def finish(self) -> Taken:
        assert self.wait() == 0, self.log
        return self.taken


class Service:
    """The hosts of one test; all of them end with it."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.hosts: list[Host] = []
        self.serving: list[Host] = []
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DLC_", "SM_"))}
        self.environ = {**own, "PYTHONPATH": f"{SOURCES}:{STARTUP}", "DLC_DATA_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}

    def serve(self, dataset: str, count: int, port: int | None = None, **options: Any) -> tuple[Host, int]:
        """A data host and its port."""
        script, port = options.pop("script", "serve_samples.py"), port or free_port()
        arguments = [dataset, str(count), json.dumps({"port": port, "workers": 2, **options})]
        host = Host([self.python, script, *arguments], self._log("serve"), self.environ)
        self.hosts.append(host)
        self.serving.append(host)
        return host, port

    def take(self, ports: Sequence[int], **options: Any) -> Rank:
        """A training rank. It finds the data hosts at once: one that is not there yet is asked again a second later."""
        for host in self.serving:
            wait_for(lambda host=host: " workers" in host.log or host.process.poll() is not None)
        out = self.folder / f"taken-{len(self.hosts)}.jsonl"
        token = options.pop("environ_token", TOKEN)
        told = {"servers": [f"127.0.0.1:{port}" for port in ports], "rank": 0, "world": 1, "patience": HANGS, **options}
        command = [self.python, "take_samples.py", str(out), json.dumps(told)]
        rank = Rank(command, self._log("take"), {**self.environ, "DLC_DATA_TOKEN": token}, out)
        self.hosts.append(rank)
        return rank

    def train(self, script: str, port: int, world: int = 1, **options: Any) -> list[Rank]:
        """A training job: its ranks, as torchrun starts them. Each writes lines as `take_samples.py` does."""
        master, ranks = free_port(), []
        for rank in range(world):
            out = self.folder / f"trained-{len(self.hosts)}.jsonl"
            told = {
                "servers": [f"127.0.0.1:{port}"],
                "out": str(out),
                "folder": str(self.folder),
                "world": world,
                **options,
            }
            torchrun = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": str(world),
                "GROUP_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(master),
                "TORCHELASTIC_RUN_ID": "of this test",
            }
            environ = {**self.environ, **torchrun, "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"}
            ranks.append(Rank([self.python, script, json.dumps(told)], self._log("train"), environ, out))
            self.hosts.append(ranks[-1])
        return ranks

    def _log(self, what: str) -> Path:
        return self.folder / f"{what}-{len(self.hosts)}.log"

    def close(self) -> None:
        for host in self.hosts:
            host.signal_all(signal.SIGCONT)
            host.kill()


def listening(pids: list[int]) -> set[tuple[str, int]]:
    """Address and port of every TCP socket that one of the processes listens at, from the kernel: no image has ss."""
    inodes = set()
    for file in (file for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # closed since
            inodes.add(str(file.readlink()))
    rows = [line.split() for family in ("tcp", "tcp6") for line in Path(f"/proc/net/{family}").read_text().splitlines()]
    return {_place(row[1]) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


def _place(text: str) -> tuple[str, int]:
    """From hexadecimal words in the machine's byte order, as 0100007F:1F90."""
    words, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    address = ipaddress.ip_address(packed)
    return str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)
