"""podman in Docker's place: what would build says so before anything starts. Its answers are podman 4.3.1's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, serving

from dlc.core.errors import EngineError
from dlc.engine.connection import find_engine, names_podman

ROOT = Path(__file__).parents[3]
TORCH = "pytorch-2.13-training-cpu-py311"
BOUND = 120
VERSION = {
    "Components": [
        {"Name": "Podman Engine", "Version": "4.3.1", "Details": {"APIVersion": "4.3.1", "Arch": "amd64"}},
        {"Name": "Conmon", "Version": "conmon version 2.1.6, commit: unknown"},
    ],
    "Version": "4.3.1", "ApiVersion": "1.41", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64",
}  # fmt: skip
INFO = {
    "ID": "05a3e9d7", "Images": 0, "Driver": "overlay", "DriverStatus": [["Using metacopy", "false"]], "NCPU": 2,
    "MemTotal": 25276059648, "OSType": "linux", "Architecture": "amd64", "IndexServerAddress": "",
    "ServerVersion": "4.3.1", "Runtimes": {"crun": {"path": "/usr/bin/crun"}}, "DockerRootDir": "/var/lib/containers",
}  # fmt: skip


def answer_as_podman(asked: Asked) -> Reply:
    """Answer `GET /version` and `GET /info` with the documents of podman."""
    place = asked.path.rpartition("/")[2]
    json_type = {"Content-Type": "application/json", "Api-Version": "1.41"}
    if place == "_ping":
        return Reply(200, {"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1"}, b"OK")
    if place in ("version", "info"):
        return Reply(200, json_type, json.dumps(VERSION if place == "version" else INFO).encode())
    return Reply(404, json_type, b'{"message": "image not known"}')


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a cache, an engine folder and a docker configuration that are empty."""
    for name in ("DOCKER_CONTEXT", "DLC_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DOCKER_CONFIG", "DLC_CACHE_DIR", "DLC_ENGINE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture(params=["its answers", "podman itself"])
def podman(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of podman's service, which DOCKER_HOST has."""
    if shutil.which("docker") is None:
        pytest.skip("no docker client on PATH, which dlc asks")
    if request.param == "its answers":
        with serving(answer_as_podman) as server:
            monkeypatch.setenv("DOCKER_HOST", f"tcp://{server.host}")
            yield f"tcp://{server.host}"
        return
    if shutil.which("podman") is None or os.geteuid():
        pytest.skip("apt-get install podman, and be root")
    # It takes no runroot of more than 50 characters.
    with tempfile.TemporaryDirectory(prefix="dlc-") as short, running_podman(Path(short)) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        yield address


@contextmanager
def running_podman(folder: Path) -> Iterator[str]:
    address = f"unix://{folder}/s"
    storage = [f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs"]
    words = ["podman", *storage, "system", "service", "--time=0", address]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as service:
        try:
            wait_for_service(service, address)
            yield address
        finally:
            service.terminate()
            service.communicate(timeout=BOUND)


def wait_for_service(service: subprocess.Popen[str], address: str) -> None:
    words = ["docker", "--host", address, "version", "--format", "{{json .Server}}"]
    deadline = time.monotonic() + BOUND
    while (done := subprocess.run(words, capture_output=True, text=True, timeout=BOUND)).returncode:
        assert service.poll() is None, service.communicate()[1]
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.05)
    assert names_podman(done.stdout)


def dlc(*argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-m", "dlc", *argv], cwd=ROOT, env=environment, capture_output=True,
                          text=True, timeout=BOUND)  # fmt: skip


@pytest.mark.parametrize("words", [["build"], ["build", "--dry-run"], ["verify-reproducible"]], ids=" ".join)
def test_what_would_build_by_podman_refuses_it_before_anything_starts(
    words: list[str], podman: str, home: Path
) -> None:
    done = dlc(*words, TORCH)
    assert done.returncode == EngineError.exit_code
    assert f"{podman}: expected a Docker engine" in done.stderr
    assert re.search(r"found podman [0-9.]+, which has no BuildKit", done.stderr)
    assert "unset DOCKER_HOST" in done.stderr or os.geteuid()
    assert not list(home.glob("DLC_CACHE_DIR/logs/*"))


def test_doctor_says_that_podman_cannot_build_and_what_to_do(podman: str) -> None:
    done = dlc("doctor")
    assert done.returncode == 1
    assert done.stdout.startswith(f"bad   engine        {podman}: expected a Docker engine")
    assert "remedy: " in done.stdout.splitlines()[1]


def test_an_engine_status_names_podman(podman: str) -> None:
    assert dlc("engine", "status").stdout.startswith("podman ")


def test_podmans_own_client_under_the_name_docker_is_told_from_dockers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Debian package podman-docker installs it so."""
    said = {"host": {"arch": "amd64", "buildahVersion": "1.28.2"}, "version": {"Version": "4.3.1"}}
    (home / "bin").mkdir()
    (home / "bin/docker").write_text(f"#!/bin/sh\n[ $1 = info ] && echo '{json.dumps(said)}'\nexit 0\n")
    (home / "bin/docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/podman/podman.sock")
    with pytest.raises(EngineError, match="expected Docker's client, found podman's under this name") as caught:
        find_engine()
    assert "docker-cli" in caught.value.remedy
