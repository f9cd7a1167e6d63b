"""Builders that are not this host's engine, for tests: a second engine, a buildkitd, BuildKit in a container.

Each has a registry beside it, and its own folder, with a name short enough for a socket.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlc.core import labels
from dlc.core.checkout import SourceFile
from dlc.engine.builders import find_builder
from dlc.engine.private_engine import PrivateEngine
from dlc.image_build import host_inputs
from dlc.image_build.bake_file import NO_CACHES, Caches
from dlc.image_build.buildx import new_log
from dlc.image_build.on_builder import Place, build_and_push
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import Target
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository
from dlc.registry.tags import move_tag
from dlc.registry.verify import verify_planned
from harness import tiny_build
from harness.engine import HANG_BOUND
from harness.registry import PASSWORD, USER, Registry

NAME = "dlc-second"
# A bridge of its own: an engine that is to have none removes docker0, and with it the network of the engine beside it.
BRIDGE = f"dlc-{os.getpid()}"
BRIDGE_ADDRESS = f"10.213.{72 + os.getpid() % 100}.1/24"
# A step that costs something, and above it a file that changes: so the launcher lies above the packages.
RECIPE = """\
FROM scratch
COPY --from=files program /program
RUN --network=none ["/program", "costly"]
COPY --from=files launcher /launcher
"""
COSTLY = 'RUN --network=none ["/program", "costly"]'


@dataclass
class Far(ABC):
    """The builder `dlc-second`, and what tests do with it."""

    place: Path
    registry: Registry
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    @abstractmethod
    def create(self) -> None:
        """Start it for the first time, and name it to docker buildx."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers."""

    @abstractmethod
    def forget(self) -> None:
        """Remove every image and finished step, as a builder that is new has none."""

    @abstractmethod
    def remove(self) -> None:
        """Leave nothing of it."""

    def kill(self) -> None:
        """End it at once, as a machine that fails does."""
        assert self.process
        self.process.kill()
        self.process.wait()
        # The steps that it had begun are left.
        for pid in list_steps():
            os.kill(pid, signal.SIGKILL)

    def spawn(self, argv: list[str], answers: Callable[[], bool]) -> None:
        """Start its daemon, whose log is a file of its folder."""
        path = self.place / "daemon.log"
        with path.open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + HANG_BOUND
        while not answers():
            assert self.process.poll() is None, path.read_text()
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.1)

    def repository(self, name: str) -> Repository:
        path = f"{name}/tiny"
        return Repository(Session(f"http://{self.registry.host}", path, Credentials(USER, PASSWORD)), path)

    def build(self, name: str, launcher: str, caches: Caches = NO_CACHES, code: bytes = tiny_build.ENDS) -> str:
        """Build and push an image, verify it and move its tag, as `dlc build --push` does; returns BuildKit's log."""
        files = {"program": tiny_build.program(code), "launcher": launcher.encode()}
        tree = {f"files/{each}": SourceFile(data, executable=True) for each, data in files.items()}
        target = Target(
            "tiny", "Dockerfile", Repo("no files"), contexts={"files": Repo("files")}, tags=("tiny:1",),
            labels={labels.KEY: launcher}, key=launcher,
        )  # fmt: skip
        plan = Plan((target,), ("tiny",))
        inputs = host_inputs.collect(plan, {**tree, "Dockerfile": SourceFile(RECIPE.encode())}, self.folder / "cache")
        log = new_log(self.folder / "cache", "build")
        places = {"tiny": Place(f"{self.registry.host}/{name}/tiny", launcher)}
        builder = find_builder(NAME)
        digests = build_and_push(plan, builder, inputs, places, log, epoch=0, revision="tiny", caches=caches)
        repository = self.repository(name)
        move_tag(repository, "moving", verify_planned(repository, digests["tiny"], target))
        return log.read_text()


class SecondEngine(Far):
    """A second engine whose store can export caches. The driver is `docker`."""

    @property
    def engine(self) -> PrivateEngine:
        return PrivateEngine(self.place / "e")

    def create(self) -> None:
        run("docker", "context", "create", NAME, "--docker", f"host={self.engine.address}")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", BRIDGE_ADDRESS, "dev", BRIDGE)
        self.start()

    def start(self) -> None:
        """Start dockerd beside the engine that may run: its bridge is its own, and it writes no rules of a firewall."""
        self.engine.folder.mkdir(exist_ok=True)
        config = self.engine.folder / "daemon.json"
        config.write_text(json.dumps({"features": {"containerd-snapshotter": True}}))
        paths = {"--data-root": "data", "--exec-root": "exec", "--pidfile": "docker.pid"}
        words = [word for option, name in paths.items() for word in (option, str(self.engine.folder / name))]
        words += ["--host", self.engine.address, "--config-file", str(config)]
        words += ["--bridge", BRIDGE, "--iptables=false", "--ip6tables=false"]
        self.spawn(["dockerd", *words], self.engine.answers)

    def docker(self, *words: str) -> str:
        return run("docker", "--host", self.engine.address, *words)

    def forget(self) -> None:
        self.docker("builder", "prune", "--all", "--force")
        self.docker("image", "prune", "--all", "--force")

    def remove(self) -> None:
        run(sys.executable, "-m", "dlc", "engine", "remove", "--yes", "--force")
        if self.process:
            self.process.wait(HANG_BOUND)
        run("ip", "link", "delete", BRIDGE)


class Buildkitd(Far):
    """A buildkitd of its own, as it runs on a machine for builds. The driver is `remote`."""

    def create(self) -> None:
        self.start()
        run("docker", "buildx", "create", "--name", NAME, "--driver", "remote", f"unix://{self.place / 'socket'}")

    def start(self) -> None:
        words = ["--root", str(self.place / "root"), "--addr", f"unix://{self.place / 'socket'}"]
        words += ["--containerd-worker=false", "--oci-worker-net", "host"]
        self.spawn(["buildkitd", *words], lambda: listens(self.place / "socket"))

    def forget(self) -> None:
        run("docker", "buildx", "prune", "--builder", NAME, "--all", "--force")

    def remove(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(HANG_BOUND)


def listens(path: Path) -> bool:
    """Tell whether somebody takes connections at a socket's path."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def list_steps() -> list[int]:
    """Return the processes of costly steps that run now, whoever builds."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes() == b"/program\0costly\0":
                found.append(int(folder.name))
    return found


def run(*argv: str) -> str:
    """Run a command to its end; return what it prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=HANG_BOUND).stdout


KINDS: dict[str, type[Far]] = {"dockerd": SecondEngine, "buildkitd": Buildkitd}


@contextmanager
def open_builder(program: str, folder: Path) -> Iterator[Far]:
    """Start a builder whose daemon is `program`, and a registry; skip the test if this host cannot. Nothing is left."""
    if os.geteuid() != 0 or not shutil.which(program):
        pytest.skip(f"a builder of its own needs root and the program {program} on PATH")
    place = Path(tempfile.mkdtemp(prefix="dlc-", dir="/tmp"))
    registry = Registry(folder / "registry")
    registry.start()
    far = KINDS[program](place, registry, folder)
    variables = {
        **registry.login(folder / "docker"), "DLC_ENGINE_DIR": str(place / "e"), "DLC_CACHE_DIR": str(place / "c"),
        "BUILDX_CONFIG": str(place / "buildx"),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
            patch.delenv(name, raising=False)
        try:
            far.create()
            yield far
        finally:
            registry.kill()
            far.remove()
            shutil.rmtree(place, ignore_errors=True)
