"""The private Docker Engine: a dockerd of our own whose socket, data, pid and log live in one folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dlc.core.errors import EngineError
from dlc.core.process import run, tail
from dlc.engine import packages

START_SECONDS = 90.0
STOP_SECONDS = 60.0
LOCK_SECONDS = 300.0  # longer than an installation takes
CONTEXT = "dlc"  # of the docker client
SOCKET_PATH_LIMIT = 100  # bytes; sun_path holds 108 with the terminator
DAEMON_CONFIG = {
    # The containerd store gives manifests with digests, OCI export and rewritten timestamps.
    "features": {"containerd-snapshotter": True},
    "builder": {"gc": {"enabled": True, "defaultKeepStorage": "40GB"}},
    # Addresses few hosts use, so that the bridge does not hide the network that the packages come from.
    "bip": "10.213.0.1/24",
    "default-address-pools": [{"base": "10.214.0.0/16", "size": 24}],
    "log-opts": {"max-size": "50m", "max-file": "2"},
}


@dataclass(frozen=True)
class EmbeddedEngine:
    """The engine that lives in `folder`; whether it runs is asked each time, never remembered."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The socket that only root may open."""
        return self.folder / "docker.sock"

    @property
    def host(self) -> str:
        """The value for DOCKER_HOST."""
        return f"unix://{self.socket}"

    @property
    def log(self) -> Path:
        """What dockerd prints."""
        return self.folder / "dockerd.log"

    def pid(self) -> int | None:
        """The pid of our dockerd while it runs, else None (a stale file or another program's pid counts as None)."""
        try:
            number = int((self.folder / "docker.pid").read_text())
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return number if str(self.folder / "data").encode() in command else None

    def answers(self) -> bool:
        """Whether a client gets an answer over the socket."""
        if not self.socket.exists() or shutil.which("docker") is None:
            return False
        return run(["docker", "--host", self.host, "version"], check=False, timeout=20).returncode == 0

    def start(self) -> bool:
        """Install what is missing and start dockerd; False when it ran already. Raises EngineError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock():
            if self.pid() and self.answers():
                return False
            self._check()
            if not _installed():
                packages.install(packages.engine_packages(), self.folder / "apt")
            self._spawn()
            self._select()
            return True

    def stop(self) -> bool:
        """End dockerd and everything that it started; False when it did not run."""
        pid = self.pid()
        if pid is None:
            return False
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 10.0)):
            os.kill(pid, number)
            if _wait(lambda: self.pid() is None, seconds):
                break
        else:
            raise EngineError(f"dockerd (pid {pid}) does not end", f"see {self.log}")
        (self.folder / "docker.pid").unlink(missing_ok=True)
        self._deselect()
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One starter at a time: a second one waits, within a bound, and then finds the engine running."""
        with (self.folder / "lock").open("w") as handle:
            if not _wait(lambda: _locked(handle), LOCK_SECONDS):
                raise EngineError(
                    f"{self.folder / 'lock'}: another dlc has been starting the engine for {LOCK_SECONDS:.0f} s",
                    "end that one, or set DLC_ENGINE_DIR to another folder",
                )
            yield

    def _select(self) -> None:
        """Let plain `docker` commands reach this engine too, where the user has chosen no other."""
        if _context()[0] not in ("default", CONTEXT):
            return
        run(["docker", "context", "rm", "--force", CONTEXT], check=False)
        run(["docker", "context", "create", CONTEXT, "--docker", f"host={self.host}"], check=False)
        run(["docker", "context", "use", CONTEXT], check=False)

    def _deselect(self) -> None:
        if _context() == (CONTEXT, self.host):
            run(["docker", "context", "use", "default"], check=False)
            run(["docker", "context", "rm", "--force", CONTEXT], check=False)

    def _check(self) -> None:
        if os.geteuid() != 0:
            raise EngineError("the embedded engine needs root", packages.MANUAL_REMEDY)
        longest = len(str(self.folder / "exec/containerd/containerd.sock.ttrpc"))
        if longest > SOCKET_PATH_LIMIT:
            raise EngineError(
                f"{self.folder}: the path is too long for a socket ({longest} > {SOCKET_PATH_LIMIT})",
                "set DLC_ENGINE_DIR to a shorter folder",
            )

    def _spawn(self) -> None:
        config = self.folder / "daemon.json"
        config.write_text(json.dumps(DAEMON_CONFIG, indent=1))
        (self.folder / "docker.pid").unlink(missing_ok=True)
        argv = ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec"]
        argv += ["-p", self.folder / "docker.pid", "-H", self.host, "--config-file", config]
        with self.log.open("wb") as log:
            # A session of its own, so that it outlives the shell and its Ctrl-C.
            child = subprocess.Popen(
                [str(word) for word in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        if not _wait(lambda: child.poll() is not None or self.answers(), START_SECONDS) or child.poll() is not None:
            if child.poll() is None:
                child.terminate()
            raise EngineError(
                f"dockerd did not start; the end of {self.log}:\n{tail(self.log.read_text(errors='replace'), 8)}",
                packages.MANUAL_REMEDY,
            )


def context_is_ours() -> bool:
    """Whether the docker client's current context was made by `EmbeddedEngine.start`."""
    return shutil.which("docker") is not None and _context()[0] == CONTEXT


def _context() -> tuple[str, str]:
    """Name and host of the docker client's current context; DOCKER_HOST does not count."""
    form = "{{.Name}} {{.Endpoints.docker.Host}}"
    done = run(["docker", "context", "inspect", "--format", form], env={"DOCKER_HOST": ""}, check=False)
    name, _, host = done.stdout.strip().partition(" ")
    return name, host


def _installed() -> bool:
    programs = ("docker", "dockerd", "iptables")
    if not all(shutil.which(name) for name in programs):
        return False
    return run(["docker", "buildx", "version"], check=False).returncode == 0


def _locked(handle: IO[str]) -> bool:
    """Take the lock of an open file if nobody holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(0.1)
    return False
