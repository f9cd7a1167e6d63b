"""The private Docker Engine: a dockerd of our own, its Debian packages, and its folder of socket, data and log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from dlc.core.atomic_files import try_lock
from dlc.core.environment import cache_folder
from dlc.core.errors import EngineError
from dlc.core.process import last_lines, start_daemon
from dlc.debian import apt
from dlc.engine import docker_client, usage
from dlc.engine.questions import tell_of_waiting
from dlc.engine.remedies import advise_without_engine

# With many layers on a slow disk; if it ends before, that is known at once.
START_SECONDS = 300.0
STOP_SECONDS = 60.0
# Longer than an installation takes.
LOCK_SECONDS = 300.0
ANSWER_SECONDS = 5.0
# For a command of the client alone, whose program may have to be read from a slow disk.
CLIENT_SECONDS = 60.0
# sun_path holds 108 with the terminator.
SOCKET_PATH_BYTES = 100
DAEMON_CONFIG = {
    # The classic store: an image is the layers that its steps left. The containerd store writes each of them as a blob
    # and unpacks it again, which takes longer than all steps of a CUDA image.
    "features": {"containerd-snapshotter": False},
    "builder": {"gc": {"enabled": True, "defaultKeepStorage": "40GB"}},
    # Addresses that few networks use, so that the bridge hides no network of the host.
    "bip": "10.213.0.1/24",
    "default-address-pools": [{"base": "10.214.0.0/16", "size": 24}],
    "log-opts": {"max-size": "50m", "max-file": "2"},
}
DOCKER_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "iptables")
UBUNTU_PACKAGES = ("docker.io", "docker-buildx", "docker-compose-v2", "iptables")
DONOR = apt.Donor(release="bookworm", suite="trixie", packages=DOCKER_PACKAGES[:4])


@dataclass(frozen=True)
class PrivateEngine:
    """The engine whose files are in `folder`. Every method checks again whether it runs."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Return the socket that only root may open."""
        return self.folder / "docker.sock"

    @property
    def address(self) -> str:
        """Return the value for DOCKER_HOST."""
        return f"unix://{self.socket}"

    @property
    def log(self) -> Path:
        """Return the file with what dockerd prints."""
        return self.folder / "dockerd.log"

    def pid(self) -> int | None:
        """Return the pid of our dockerd while it runs, else None. A stale file or another program's pid counts as None.

        One that has just started has no pid file yet: it is found by its command line.
        """
        try:
            number = int((self.folder / "docker.pid").read_text())
        except (OSError, ValueError):
            number = 0
        ours = {other for other, command in _list_daemons() if str(self.folder / "data") in command}
        return number if number in ours else next(iter(ours), None)

    def answers(self) -> bool:
        """Tell whether a client gets an answer over the socket."""
        if not self.socket.exists() or not docker_client.is_present():
            return False
        try:
            done = docker_client.run_docker(
                "version", env=docker_client.client_environment(self.address), check=False, timeout=ANSWER_SECONDS
            )
        except EngineError:
            return False
        return done.returncode == 0

    def start(self) -> bool:
        """Install what is missing and start dockerd; False when it ran already. Raises EngineError."""
        self._check()
        with self.lock():
            if self.pid():
                # Another process started it and ended before it answered.
                self._await()
                return False
            self._require_alone()
            if not is_installed():
                install_docker()
            self._spawn()
            _change_context(docker_client.select_context, self.address)
            return True

    def stop(self, force: bool = False) -> bool:
        """End dockerd and everything that it started; False when it did not run.

        Raises EngineError if it is in use, unless `force`.
        """
        if not self.folder.is_dir():
            return False
        with self.lock():
            pid = self.pid()
            if pid is not None:
                if not force:
                    self._require_idle()
                self._end(pid)
            if docker_client.is_present():
                _change_context(docker_client.deselect_context, self.address)
            return pid is not None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the engine's lock: only one process starts or stops it at a time; others wait.

        Raises EngineError after LOCK_SECONDS.
        """
        path = self.folder / "lock"
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            self._make_folder()
            try:
                handle = path.open("w")
            except FileNotFoundError as error:
                # Another process has removed the folder in this moment.
                if path.is_symlink() or time.monotonic() > deadline:
                    raise EngineError(f"{path}: cannot be made: {error.strerror}", f"remove {path}") from None
                continue
            with handle:
                if not _wait_until(partial(try_lock, handle.fileno()), deadline - time.monotonic()):
                    raise EngineError(
                        f"{path}: another dlc has been starting or stopping the engine for {LOCK_SECONDS:.0f} s",
                        "end that one, or set DLC_ENGINE_DIR to another folder",
                    )
                # Else another process has removed the engine with this file.
                if _is_same(handle, path):
                    yield
                    return

    def _check(self) -> None:
        if os.geteuid() != 0:
            raise EngineError("the private engine needs root", advise_without_engine())
        longest = len(os.fsencode(self.folder / "exec/containerd/containerd.sock.ttrpc"))
        if longest > SOCKET_PATH_BYTES:
            raise EngineError(
                f"{self.folder}: the path is too long for a socket ({longest} > {SOCKET_PATH_BYTES} bytes)",
                "set DLC_ENGINE_DIR to a shorter folder",
            )

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            # It was there, and another process has removed it in this moment: `lock` sees that, and makes it anew.
            seen = isinstance(error, FileExistsError) and error.filename == os.fspath(self.folder)
            if seen and not os.path.lexists(self.folder):
                return
            raise EngineError(
                f"{self.folder}: expected a folder that dlc can make and write, found: {error.strerror}",
                "set DLC_ENGINE_DIR or DLC_CACHE_DIR to another folder",
            ) from None

    def _require_alone(self) -> None:
        """Raise EngineError beside another engine.

        In one network both share a bridge and delete each other's firewall rules.
        """
        network = Path("/proc/self/ns/net").readlink()
        for number, command in _list_daemons():
            try:
                same = Path(f"/proc/{number}/ns/net").readlink() == network
            except OSError:
                continue
            if same:
                raise EngineError(
                    f"another dockerd runs on this host (pid {number}): {' '.join(command)[:200]}",
                    "set DOCKER_HOST to its socket, or stop it first",
                )

    def _require_idle(self) -> None:
        if busy := usage.describe_usage(self.address, self.socket):
            raise EngineError(
                f"{self.address}: in use:\n" + "\n".join(f"    {line}" for line in busy),
                "wait for these, or end them together with the engine: --force",
            )

    def _spawn(self) -> None:
        config = self.folder / "daemon.json"
        config.write_text(json.dumps(DAEMON_CONFIG | read_kept_store(config), indent=1))
        # dockerd removes its pid file when it ends by itself. The mark stays until what a kill may have left is gone.
        killed = self.folder / "killed"
        with suppress(FileNotFoundError):
            (self.folder / "docker.pid").rename(killed)
        argv = ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec"]
        argv += ["-p", self.folder / "docker.pid", "-H", self.address, "--config-file", config]
        child = start_daemon([str(word) for word in argv], self.log)
        try:
            self._await(lambda: child.poll() is not None)
            if killed.exists():
                self._forget_sent_files()
                killed.unlink()
        except BaseException:
            if child.poll() is None:
                child.terminate()
            raise

    def _forget_sent_files(self) -> None:
        """Have the next build send all its files again.

        BuildKit keeps what a client sent, and notes the files' digests at the end. Killed in between it has new files
        under old digests, finds nothing to be sent, and takes the layers that were made of the files before.
        """
        words = ("builder", "prune", "--force", "--filter", "type=source.local")
        reach = docker_client.client_environment(self.address)
        docker_client.run_docker(*words, env=reach, timeout=START_SECONDS)

    def _await(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Wait until it answers. Raises EngineError if it `ended`, or after START_SECONDS."""
        with tell_of_waiting(f"it starts; its log is {self.log}"):
            answered = _wait_until(lambda: ended() or self.answers(), START_SECONDS)
        if answered and not ended():
            return
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        raise EngineError(
            f"dockerd does not answer; the end of {self.log}:\n{last_lines(log, 8)}",
            "dlc engine stop --force; dlc engine start",
        )

    def _end(self, pid: int) -> None:
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 10.0)):
            os.kill(pid, number)
            if _wait_until(lambda: self.pid() is None, seconds):
                break
        else:
            raise EngineError(f"dockerd (pid {pid}) does not end", f"see {self.log}")


def read_kept_store(config: Path) -> dict[str, object]:
    """Return the store of an engine that was started before: with another store its images disappear from view."""
    try:
        return {"features": json.loads(config.read_text())["features"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _list_daemons() -> Iterator[tuple[int, list[str]]]:
    """List pid and command line of each dockerd on this host."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = os.fsdecode(path.read_bytes()).split("\0")
        except OSError:
            continue
        if Path(command[0]).name == "dockerd":
            yield int(path.parent.name), command


def is_installed() -> bool:
    """Tell whether the programs of a private engine are on this host."""
    if not all(shutil.which(name) for name in (docker_client.PROGRAM, "dockerd", "iptables")):
        return False
    done = docker_client.run_docker("buildx", "version", env={}, check=False, timeout=CLIENT_SECONDS)
    return done.returncode == 0


def _change_context(change: Callable[[str], None], address: str) -> None:
    """Change the client's context, or warn. The engine runs, or has ended, whatever comes of that."""
    try:
        change(address)
    except EngineError as error:
        print(f"dlc: warning: the context of plain docker commands is as it was: {error.message}", file=sys.stderr)


def _is_same(handle: IO[str], path: Path) -> bool:
    """Tell whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _wait_until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True


def docker_packages() -> tuple[str, ...]:
    """Return the names of these packages in this host's distribution."""
    return UBUNTU_PACKAGES if apt.read_os_release().get("ID") == "ubuntu" else DOCKER_PACKAGES


def install_docker() -> None:
    """Install Docker's packages without starting a daemon. Raises HostError, PackageIndexError."""
    apt.install_packages(docker_packages(), cache_folder() / "apt", DONOR)
