"""Starts the supervisor in a process of its own on small scripts and reads back what it printed and decided."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENTRYPOINT = Path(__file__).resolve().parents[3] / "src" / "entrypoint"
HANG_BOUND = 60  # seconds; no test waits for a duration, this only ends one that would never end

# The launcher's own timeouts, by module and name, made small: what lets one of them pass is over soon.
SET_CONSTANTS = """
import importlib
def set_constants(constants):
    for place, value in constants.items():
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(module), name), place
        setattr(importlib.import_module(module), name, value)
"""
DRIVER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from launch import signals
signals.arm()
from launch.base.process_spec import ProcessSpec
from launch.supervision.supervisor import supervise
from launch.supervision.settings import Settings
job = json.loads(sys.argv[2])
specs = [ProcessSpec(tuple(s["argv"]), s["env"], s["cwd"], s["role"], s["rank"], s["essential"], s["vital"])
         for s in job["specs"]]
exec(job["before"])
outcome = supervise(specs, Settings(**{"starters": ("torchrun", "mpirun"), **job["settings"]}))
failure = outcome.failure._asdict() if outcome.failure else None
with open(job["result"], "w") as file:
    json.dump({"exit_code": outcome.exit_code, "failure": failure, "stopped": outcome.stopped}, file)
"""

SAVES = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path('saved').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path('ready').touch()
time.sleep(600)
"""


@dataclass
class Script:
    """One process of a test's job: Python source and how it is planned."""

    source: str
    rank: int = 0
    role: str = "worker"
    essential: bool = True
    vital: bool = False
    argv: tuple[str, ...] = ()
    path: str = os.environ["PATH"]

    def spec(self, cwd: Path) -> dict[str, Any]:
        argv = self.argv or (sys.executable, "-I", "-S", "-u", "-c", self.source)
        env = {"PATH": self.path}
        return {
            "argv": argv,
            "env": env,
            "cwd": str(cwd),
            "role": self.role,
            "rank": self.rank,
            "essential": self.essential,
            "vital": self.vital,
        }


@dataclass
class Run:
    """A supervisor at work."""

    process: subprocess.Popen[bytes]
    result: Path
    stdout: bytes = b""
    stderr: bytes = b""
    outcome: dict[str, Any] = field(default_factory=dict)

    def finish(self) -> Run:
        """Wait for its end and read what it left."""
        self.stdout, self.stderr, self.outcome = end_of(self.process, self.result)
        return self

    @property
    def exit_code(self) -> int:
        code: int = self.outcome["exit_code"]
        return code

    @property
    def failure(self) -> dict[str, Any]:
        failure: dict[str, Any] = self.outcome["failure"]
        assert failure is not None, "the run did not fail"
        return failure


def end_of(process: subprocess.Popen[bytes], result: Path) -> tuple[bytes, bytes, dict[str, Any]]:
    """(stdout, stderr, what is in the file of the result) of a driver, once it has ended."""
    try:
        stdout, stderr = process.communicate(timeout=HANG_BOUND)
    finally:
        process.kill()
    assert result.exists(), stderr.decode()
    return stdout, stderr, json.loads(result.read_text())


def start(folder: Path, *scripts: Script | str, before: str = "", below: tuple[str, ...] = (), **settings: Any) -> Run:
    """Start a supervisor over these scripts; `folder` is their working directory.

    `before` is Python that the supervisor runs first, `below` the command that starts it.
    """
    jobs = [script if isinstance(script, Script) else Script(script) for script in scripts]
    job = {
        "specs": [script.spec(folder) for script in jobs],
        "settings": {"host": "algo-1", "end_grace": 5.0, "stop_grace": 5.0, **settings},
        "before": before,
        "result": str(folder / "result.json"),
    }
    argv = [*below, sys.executable, "-I", "-S", "-c", DRIVER, str(ENTRYPOINT), json.dumps(job)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return Run(process, folder / "result.json")


def run(folder: Path, *scripts: Script | str, **settings: Any) -> Run:
    """Start a supervisor over these scripts and wait for its end."""
    return start(folder, *scripts, **settings).finish()


def wait_until(holds: Callable[[], bool]) -> None:
    """Until something is so; the test fails where it takes too long."""
    deadline = time.monotonic() + HANG_BOUND
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_armed(process: subprocess.Popen[bytes]) -> bool:
    """Whether it catches SIGTERM, as the kernel says."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)


def wait_for(path: Path) -> str:
    """Wait for a script to write this file; its text."""
    deadline = time.monotonic() + HANG_BOUND
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)
    return path.read_text()
