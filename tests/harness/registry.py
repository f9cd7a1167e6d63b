"""A real registry for tests: Debian's docker-registry on a free port of this host, with basic authentication."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from dlc.core.environment import cache_folder
from dlc.core.process import run_program
from dlc.debian.apt import can_install, install_packages
from harness.authority import Authority
from harness.engine import HANG_BOUND
from harness.ports import free_port

PROGRAMS = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils"}
USER, PASSWORD = "pusher", "correct-horse"


class Registry:
    """Starts and ends with the test; its data stays in the folder, so that it can be started again."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", authority: Authority | None = None) -> None:
        """With an `authority` it speaks TLS and has a certificate of it for `address`."""
        _require_programs()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.host = f"{address}:{free_port(address)}"
        self.readonly = False
        self.deletes = True
        self._certificate = authority.certificate(f"IP:{address}") if authority else None
        self._process: subprocess.Popen[bytes] | None = None
        self.set_password(PASSWORD)

    def _configuration(self) -> dict[str, object]:
        http: dict[str, object] = {"addr": self.host}
        if self._certificate:
            http["tls"] = dict(zip(("certificate", "key"), map(str, self._certificate), strict=True))
        maintenance = {"readonly": {"enabled": self.readonly}}
        kept = {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": self.deletes}}
        return {
            "version": "0.1",
            "storage": {**kept, "maintenance": maintenance},
            "http": http,
            "auth": {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}},
        }

    def start(self) -> None:
        """Start it and wait until it listens."""
        (self.folder / "registry.json").write_text(json.dumps(self._configuration()))  # JSON is YAML
        with (self.folder / "registry.log").open("ab") as log:
            argv = ["docker-registry", "serve", str(self.folder / "registry.json")]
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + HANG_BOUND
        while not self._listens():
            assert self._process.poll() is None, (self.folder / "registry.log").read_text()
            assert time.monotonic() < deadline, f"no registry listens at {self.host}"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, as a machine that fails does."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def login(self, folder: Path, host: str = "") -> dict[str, str]:
        """What `docker login` would leave in a configuration folder, as the environment that names it.

        `host` is where the client meets it, if not at its own port.
        """
        folder.mkdir(exist_ok=True)
        known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {host or self.host: {"auth": known}}}))
        return {"DOCKER_CONFIG": str(folder)}

    def set_password(self, password: str) -> None:
        """From now on this one is right; the registry reads the file again when it changes."""
        line = run_program(["htpasswd", "-niB", USER], stdin=password).stdout
        (self.folder / "htpasswd").write_text(line)

    def repository(self, name: str) -> Path:
        """The folder in which it keeps a repository."""
        return self.folder / "data/docker/registry/v2/repositories" / name

    def tags(self, name: str) -> list[str]:
        """Tags of images in a repository, as they lie on its disk; those of referrers begin with `sha256-`."""
        folder = self.repository(name) / "_manifests/tags"
        found = [path.name for path in folder.iterdir()] if folder.exists() else []
        return sorted(tag for tag in found if not tag.startswith("sha256-"))

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        value = digest.removeprefix("sha256:")
        return self.folder / "data/docker/registry/v2/blobs/sha256" / value[:2] / value / "data"

    def _listens(self) -> bool:
        name, _, port = self.host.partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((name, int(port))) == 0


def _require_programs() -> None:
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing and (reason := can_install()):
        pytest.skip(f"{', '.join(missing)}: not there, and cannot be installed: {reason}")
    if missing:
        install_packages(missing, cache_folder() / "apt")
