"""`dlc run` as a user starts it: a process of its own, whose lines can be waited for and which can be interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from dlc.core.checkout import find_root
from dlc.core.labels import JOB
from dlc.places.local.lifecycle import remove_containers
from harness.engine import CALM_OPTIONS, HANG_BOUND, connect, docker
from harness.toy import command, environment

POLL_SECONDS = 0.1


class DlcRun:
    """One `dlc run`. Leaving the `with` kills it, and removes what its job left.

    `words` are those behind `run`: options, image, script. Output and results are below `folder`; `cache` is where dlc
    notes which jobs it looks after.
    """

    def __init__(self, folder: Path, *words: str, cache: Path, reader: str = "") -> None:
        """`reader` is a program that reads the output, and may leave before its end."""
        folder.mkdir(parents=True)
        self.results = folder / "results"
        self._log = folder / "log"
        settings = environment(DLC_CACHE_DIR=str(cache))
        calm = () if "--remove" in words else CALM_OPTIONS
        with self._log.open("ab") as log:
            self._reader = subprocess.Popen(reader.split(), stdin=subprocess.PIPE, stdout=log) if reader else None
            self._process = subprocess.Popen(
                command("run", *calm, "--output", str(self.results), *words), cwd=find_root(), env=settings,
                stdout=self._reader.stdin if self._reader else log, stderr=log,
            )  # fmt: skip
        if self._reader and self._reader.stdin:
            self._reader.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A failed test shows the output below what failed."""
        self.kill()
        if error is not None:
            print(self.output)
        if self._reader:
            self._reader.wait()
        if job := self.job:
            remove_containers(connect(), job)

    @property
    def output(self) -> str:
        """What it has printed so far, standard error too."""
        return self._log.read_text(errors="replace")

    @property
    def job(self) -> str:
        """The job's id, which is the first that it says; "" before that."""
        found = re.search(r"^dlc: job (\S+) starts", self.output, re.MULTILINE)
        return found[1] if found else ""

    def wait(self, seconds: float = HANG_BOUND) -> int:
        """Its exit code; the test fails where it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"dlc run has not ended within {seconds:g} s")

    def wait_for(self, *texts: str, seconds: float = HANG_BOUND) -> None:
        """Return when all these texts have been printed; the test fails where that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while missing := [text for text in texts if text not in self.output]:
            if time.monotonic() > deadline or self._process.poll() is not None:
                pytest.fail(f"dlc run did not print {missing}")
            time.sleep(POLL_SECONDS)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def kill_clients(self, host: str) -> int:
        """SIGKILL to the docker clients that follow a host; how many there were."""
        children = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        pids = [int(pid) for path in children for pid in path.read_text().split()]
        clients = [pid for pid in pids if f"-{host}\0".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for pid in clients:
            os.kill(pid, signal.SIGKILL)
        return len(clients)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


def left(*words: str, job: str) -> list[str]:
    """Names of what `docker ps` or `docker network ls` shows of a job."""
    form = "{{.Names}}" if words[0] == "ps" else "{{.Name}}"
    return docker(*words, "--filter", f"label={JOB}={job}", "--format", form).stdout.split()
