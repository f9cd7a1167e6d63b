"""A running container of an image that answers questions, each bounded in time inside the container itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import testinfra  # type: ignore[import-untyped]  # it has no annotations

from harness.engine import RUN_LABEL, docker, stretch

LIFETIME_SECONDS = 3600  # a container that a killed test run leaves behind ends by itself


@dataclass(frozen=True)
class Container:
    """A container whose only process sleeps; `host` asks it testinfra's questions (packages, users, files)."""

    name: str
    host: testinfra.host.Host

    def ask(self, *argv: str, seconds: int = 180) -> str:
        """Standard output of a command, which must succeed within `seconds`."""
        code, output, errors = self.try_to(*argv, seconds=seconds)
        assert code == 0, f"{shlex.join(argv)}: exit code {code}\n{output}\n{errors}"
        return output

    def try_to(self, *argv: str, seconds: int = 180) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command; 124 when it took longer than `seconds`."""
        done = self.host.run(shlex.join(["timeout", str(stretch(seconds)), *argv]))
        return done.rc, done.stdout, done.stderr

    def python(self, code: str, *argv: str, seconds: int = 180) -> str:
        """What a program printed that the image's own `python` ran, which must succeed."""
        return self.ask("python", "-c", code, *argv, seconds=seconds)

    def find(self, *conditions: str, below: tuple[str, ...] = ("/",), seconds: int = 300) -> list[str]:
        """Paths in the image's own file system (no mounts) that meet the conditions of find(1), sorted."""
        return sorted(self.ask("find", *below, "-xdev", *conditions, seconds=seconds).splitlines())


@contextmanager
def running(ref: str) -> Iterator[Container]:
    """Start a container that sleeps, without the image's entrypoint, and remove it at the end."""
    sleep = ("--entrypoint", "sleep", ref, str(LIFETIME_SECONDS))
    name = docker("run", "--detach", "--label", RUN_LABEL, "--shm-size", "256m", *sleep).stdout.strip()
    try:
        yield Container(name, testinfra.get_host(f"docker://{name}"))
    finally:
        docker("rm", "--force", "--volumes", name, check=False)
