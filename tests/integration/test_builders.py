"""dlc build's builder for real: a second engine that builds, a cache in a registry, and an engine that dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlc.build import host_inputs
from dlc.build.bake_file import NO_CACHES, Caches
from dlc.build.buildx import new_log
from dlc.build.on_builder import Place, build_and_push
from dlc.core import labels
from dlc.core.checkout import SourceFile
from dlc.core.errors import DlcError
from dlc.engine.builders import find_builder
from dlc.engine.private_engine import PrivateEngine
from dlc.images.push.registry.credentials import Credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import Repository
from dlc.images.push.tags import move_tag
from dlc.images.push.verify import verify_planned
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import Target
from harness import tiny_build
from harness.registry import PASSWORD, USER, Registry

pytestmark = pytest.mark.integration
NAME = "dlc-second"
# A bridge of its own: an engine that is to have none removes docker0, and with it the network of the engine beside it.
BRIDGE = f"dlc-{os.getpid()}"
BRIDGE_ADDRESS = f"10.213.{72 + os.getpid() % 100}.1/24"
HANG_SECONDS = 300.0
# A step that costs something, and above it a file that changes: so the launcher lies above the packages.
RECIPE = """\
FROM scratch
COPY --from=files program /program
RUN --network=none ["/program", "costly"]
COPY --from=files launcher /launcher
"""
COSTLY = 'RUN --network=none ["/program", "costly"]'


@dataclass
class Far:
    """A second engine whose store can export caches: the builder `dlc-second`. And a registry beside it."""

    engine: PrivateEngine
    registry: Registry
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Start dockerd beside the engine that may run: its bridge is its own, and it writes no rules of a firewall."""
        self.engine.folder.mkdir(exist_ok=True)
        config = self.engine.folder / "daemon.json"
        config.write_text(json.dumps({"features": {"containerd-snapshotter": True}}))
        paths = {"--data-root": "data", "--exec-root": "exec", "--pidfile": "docker.pid"}
        words = [word for option, name in paths.items() for word in (option, str(self.engine.folder / name))]
        words += ["--host", self.engine.address, "--config-file", str(config)]
        words += ["--bridge", BRIDGE, "--iptables=false", "--ip6tables=false"]
        with self.engine.log.open("ab") as log:
            self.process = subprocess.Popen(["dockerd", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + HANG_SECONDS
        while not self.engine.answers():
            assert self.process.poll() is None, self.engine.log.read_text()
            assert time.monotonic() < deadline, self.engine.log.read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a machine that fails does."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def docker(self, *words: str) -> str:
        argv = ["docker", "--host", self.engine.address, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=HANG_SECONDS).stdout

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


@pytest.fixture
def far(engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    """`engine`: what an engine is made of is installed. The folder's name is short enough for a socket."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        pytest.skip("a second engine needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="dlc-", dir="/tmp"))
    registry = Registry(tmp_path / "registry")
    registry.start()
    found = Far(PrivateEngine(folder / "e"), registry, tmp_path)
    variables = {
        **registry.login(tmp_path / "docker"),
        "DLC_ENGINE_DIR": str(folder / "e"),
        "DLC_CACHE_DIR": str(folder / "c"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    argv = ["docker", "context", "create", NAME, "--docker", f"host={found.engine.address}"]
    subprocess.run(argv, check=True, capture_output=True, timeout=HANG_SECONDS)
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("address", "add", BRIDGE_ADDRESS, "dev", BRIDGE)
        found.start()
        yield found
    finally:
        registry.kill()
        argv = [sys.executable, "-m", "dlc", "engine", "remove", "--yes", "--force"]
        subprocess.run(argv, check=True, capture_output=True, timeout=HANG_SECONDS)
        if found.process:
            found.process.wait(HANG_SECONDS)
        ip("link", "delete", BRIDGE)
        shutil.rmtree(folder, ignore_errors=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=HANG_SECONDS)


def steps(log: str) -> dict[str, bool]:
    """Whether each step of the Dockerfile was taken from a cache: one whose layer comes from afar is extracted."""
    numbers, cached = {}, set()
    for line in log.splitlines():
        number, _, rest = line.partition(" ")
        if rest.startswith("["):
            numbers[number] = rest.partition("] ")[2]
        elif rest == "CACHED" or rest.startswith("extracting sha256:"):
            cached.add(number)
    return {command: number in cached for number, command in numbers.items()}


def cache(far: Far) -> Caches:
    word = f"type=registry,ref={far.registry.host}/cache/tiny:{{image}}"
    return Caches((word,), (f"{word},mode=max",))


def test_a_changed_launcher_is_rebuilt_elsewhere_by_the_cache_alone(far: Far) -> None:
    first = far.build("team", "first", cache(far))
    assert steps(first)[COSTLY] is False
    image = far.repository("team").manifest("moving")
    assert image
    far.docker("builder", "prune", "--all", "--force")
    far.docker("image", "prune", "--all", "--force")
    second = far.build("team", "second", cache(far))
    assert steps(second)[COSTLY] is True
    again = far.repository("team").manifest("moving")
    assert again
    assert again.content["layers"][:-1] == image.content["layers"][:-1]
    assert again.content["layers"][-1] != image.content["layers"][-1]


def test_an_image_is_pulled_by_its_digest_from_where_it_was_pushed(far: Far) -> None:
    far.build("team", "first")
    image = far.repository("team").manifest("moving")
    assert image
    far.docker("image", "prune", "--all", "--force")
    name = f"{far.registry.host}/team/tiny@{image.digest}"
    far.docker("pull", "--quiet", name)
    said = json.loads(far.docker("image", "inspect", name))
    assert said[0]["Config"]["Labels"][labels.KEY] == "first"


def test_a_builder_that_dies_in_the_middle_is_one_error_and_moves_no_tag(far: Far) -> None:
    failed: list[DlcError] = []

    def build() -> None:
        try:
            far.build("dead", "first", code=tiny_build.WAITS)
        except DlcError as error:
            failed.append(error)

    work = threading.Thread(target=build)
    work.start()
    logs = far.folder / "cache/logs"
    deadline = time.monotonic() + HANG_SECONDS
    while not any(COSTLY in path.read_text() for path in logs.glob("*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    far.kill()
    work.join(HANG_SECONDS)
    assert not work.is_alive()
    assert len(failed) == 1
    assert failed[0].remedy
    assert far.repository("dead").tags() == []
    far.start()
    far.build("dead", "second")
    assert "moving" in far.repository("dead").tags()


def test_a_cache_with_other_bytes_than_its_digests_gets_into_no_image(far: Far) -> None:
    far.build("honest", "first", cache(far))
    honest = far.repository("honest").manifest("moving")
    assert honest
    far.docker("builder", "prune", "--all", "--force")
    far.docker("image", "prune", "--all", "--force")
    for layer in honest.content["layers"]:
        path = far.registry.blob(layer["digest"])
        path.write_bytes(bytes(len(path.read_bytes())))
    try:
        far.build("liar", "second", Caches(cache(far).sources))
    except DlcError:
        assert far.repository("liar").tags() == [] or "moving" not in far.repository("liar").tags()
    else:
        made = far.repository("liar").manifest("moving")
        assert made
        assert not any(
            far.registry.blob(layer["digest"]).read_bytes().strip(b"\0") == b"" for layer in made.content["layers"]
        )
