"""`dlc run` as a user starts it: a process of its own, whose lines can be waited for and which can be interrupted."""

from __future__ import annotations

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
from harness.engine import docker
from harness.toy import command, environment

BOUND_SECONDS = 180.0  # only a hang takes that long
POLL_SECONDS = 0.1


class DlcRun:
    """One `dlc run`. Leaving the `with` kills it, and removes what its job left.

    Output and results are below `folder`; `cache` is where dlc notes which jobs it looks after.
    """

    def __init__(self, folder: Path, *words: str, cache: Path, **variables: str) -> None:
        folder.mkdir(parents=True)
        self.results = folder / "results"
        self._log = folder / "log"
        settings = environment(DLC_CACHE_DIR=str(cache), PYTHONPATH=str(find_root() / "src"), **variables)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command("run", *words, "--output", str(self.results)), cwd=find_root(), env=settings,
                stdout=log, stderr=log,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for name in (*left("ps", "--all", job=self.job), *left("network", "ls", job=self.job)):
            docker("rm", "--force", "--volumes", name, check=False)
            docker("network", "rm", name, check=False)

    @property
    def output(self) -> str:
        """What it has printed so far, standard error too."""
        return self._log.read_text(errors="replace")

    @property
    def job(self) -> str:
        """The job's id, "" as long as it has no container: containers are told which folder is theirs."""
        for name in left("ps", "--all"):
            mounts = docker("inspect", "--format", "{{json .Mounts}} {{json .Config.Labels}}", name, check=False).stdout
            if f"{self.results}/" in mounts:
                return str(re.search(rf'"{JOB}":"([^"]*)"', mounts)[1])  # type: ignore[index]
        return ""

    def wait(self, seconds: float = BOUND_SECONDS) -> int:
        """Its exit code; the test fails where it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"dlc run has not ended within {seconds:g} s\n{self.output}", pytrace=False)

    def wait_for(self, *texts: str, seconds: float = BOUND_SECONDS) -> None:
        """Return when all these texts have been printed; the test fails where that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while missing := [text for text in texts if text not in self.output]:
            if time.monotonic() > deadline or self._process.poll() is not None:
                pytest.fail(f"dlc run did not print {missing}\n{self.output}", pytrace=False)
            time.sleep(POLL_SECONDS)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


def left(*words: str, job: str = "") -> list[str]:
    """Names of what `docker ps` or `docker network ls` shows of a job, or of all jobs."""
    label = f"label={JOB}={job}" if job else f"label={JOB}"
    form = "{{.Names}}" if words[0] == "ps" else "{{.Name}}"
    return docker(*words, "--filter", label, "--format", form).stdout.split()
