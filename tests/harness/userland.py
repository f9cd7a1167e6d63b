"""Other systems for tests: a minimal one by mmdebstrap, as a privileged container with an engine of its own.

The container has a network, a limit of memory, and a volume below ~/.cache: an engine's layers cannot lie on the layers
of another. It shares nothing else with this host but the kernel. What reaches packages here reaches them there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dlc.core.checkout import find_root
from dlc.core.environment import find_ca_bundle
from dlc.core.process import last_lines, run_program
from dlc.debian.rootfs import ALONE
from harness.engine import RUN_LABEL, docker
from harness.relay import Relay

ROOT = find_root(Path(__file__).parent)
# Suite -> what people call it. The README promises these.
SYSTEMS = {"bookworm": "Debian 12", "trixie": "Debian 13", "noble": "Ubuntu 24.04"}
UBUNTU = ("noble",)
# What the README asks for: apt, git and make.
PACKAGES = "--include=apt,ca-certificates,git,make"
KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
MAKE_SECONDS = 900.0
# Of a page's steps
SECONDS = 3600.0
MEMORY = "8g"
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL",
             "UV_DEFAULT_INDEX")  # fmt: skip
MIRROR = "DLC_INDEX_PYTORCH_CPU"
BUNDLE = "/run/authorities.pem"
NO_REQUEST = r"(?!)"
# The first process, which takes the ends of processes whose parent has ended, as a system's init does.
INIT = "sleep infinity & wait"


@dataclass(frozen=True)
class Userland:
    """A running system with a clean checkout of HEAD in ~/dlc; `log` is all that its commands print."""

    name: str
    log: Path
    environment: Mapping[str, str]

    def run(self, command: str, seconds: float) -> int:
        """Run a command of a shell in the checkout, and return its exit code."""
        words = [word for name, value in self.environment.items() for word in ("--env", f"{name}={value}")]
        argv = ["docker", "exec", "--workdir", "/root/dlc", *words, self.name, "sh", "-c", command]
        with self.log.open("ab") as log:
            log.write(f"== {command}\n".encode())
            log.flush()
            return subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=seconds
            ).returncode

    def typing(self, folder: str, **more: str) -> Callable[[str], subprocess.CompletedProcess[str]]:
        """Return what runs a script of bash in a folder there, with these variables besides."""

        def run(script: str) -> subprocess.CompletedProcess[str]:
            found = {**self.environment, **more}
            words = [word for name, value in found.items() for word in ("--env", f"{name}={value}")]
            argv = ["docker", "exec", "--workdir", folder, *words, self.name, "bash", "-eu", "-o", "pipefail", "-c"]
            done = subprocess.run(
                [*argv, script], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
            )
            print(done.stdout, done.stderr)
            return done

        return run

    def copy(self, source: Path, target: str) -> None:
        """Copy a file or folder to there."""
        docker("cp", str(source), f"{self.name}:{target}")

    def ask(self, command: str) -> str:
        """Return what a command prints, which must succeed."""
        done = docker("exec", "--workdir", "/root/dlc", self.name, "sh", "-c", command, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @property
    def tail(self) -> str:
        """Return the end of the log."""
        return f"{self.log}:\n{last_lines(self.log.read_text(errors='replace'), 60)}"


@contextmanager
def open_userland(suite: str, folder: Path) -> Iterator[Userland]:
    """Make and start the system; skip the test if this host cannot. Nothing is left but its log."""
    number = os.getpid() % 200
    name = f"dlc-userland-{suite}-{os.getpid()}"
    image = f"dlc-userland:{suite}-{os.getpid()}"
    docker("import", str(make_tar(suite, folder)), image)
    with ExitStack() as stack:
        stack.callback(docker, "image", "rm", image, check=False)
        # Neither of the addresses that the private engine inside takes for its own networks.
        docker("network", "create", "--label", RUN_LABEL, "--subnet", f"10.212.{number}.0/24", name)
        stack.callback(docker, "network", "rm", name, check=False)
        environment, mounts = _pass_on(stack, f"10.212.{number}.1")
        options = ("--privileged", "--memory", MEMORY, "--network", name, "--volume", "/root/.cache", *mounts)
        stack.callback(docker, "rm", "--force", "--volumes", name, check=False)
        docker("run", "--detach", "--label", RUN_LABEL, "--name", name, *options, image, "sh", "-c", INIT)
        run_program(["git", "-C", str(ROOT), "bundle", "create", "--quiet", str(folder / "head"), "HEAD"])
        docker("cp", str(folder / "head"), f"{name}:/root/head")
        docker("exec", name, "git", "clone", "--quiet", "/root/head", "/root/dlc")
        log = ROOT / "build/userlands" / f"{suite}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        yield Userland(name, log, environment)


def make_tar(suite: str, folder: Path) -> Path:
    """Make the root file system as a tar; skip the test if mmdebstrap or Ubuntu's mirror is not there."""
    if os.geteuid() or not shutil.which("mmdebstrap"):
        pytest.skip("another system needs root, and the program mmdebstrap on PATH")
    target = folder / f"{suite}.tar"
    if suite not in UBUNTU:
        run_program(_mmdebstrap(PACKAGES, suite, target), timeout=MAKE_SECONDS)
        return target
    # Debian has Ubuntu's keys.
    own = ("--variant=extract", "--include=ubuntu-keyring")
    with tempfile.TemporaryDirectory() as keys:
        # apt reads keys as a user without rights, for whom pytest's folders are closed.
        Path(keys).chmod(0o755)
        run_program(_mmdebstrap(*own, "trixie", Path(keys, "debian")), timeout=MAKE_SECONDS)
        options = ("--components=main,universe", f"--keyring={Path(keys, 'debian', KEYRING)}")
        done = run_program(_mmdebstrap(PACKAGES, *options, suite, target), check=False, timeout=MAKE_SECONDS)
    if done.returncode == 0:
        return target
    pytest.skip(f"no {SYSTEMS[suite]} from Ubuntu's mirror: {last_lines(done.stderr, 3)}")


def _mmdebstrap(*words: str | Path) -> list[str]:
    return [*ALONE, "mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", *map(str, words)]


def _pass_on(stack: ExitStack, gateway: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables and mounts by which this host reaches its packages, as a container can use them."""
    found = {"HOME": "/root"} | {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    mounts: list[str] = []
    if bundle := find_ca_bundle(os.environ):
        mounts += ["--volume", f"{bundle}:{BUNDLE}:ro"]
        found |= {"SSL_CERT_FILE": BUNDLE, "PIP_CERT": BUNDLE}
    if mirror := os.environ.get(MIRROR, ""):
        found[MIRROR] = mirror
        address = urlsplit(mirror)
        if address.hostname in ("127.0.0.1", "localhost"):
            relay = stack.enter_context(Relay(address.netloc, NO_REQUEST, gateway))
            found[MIRROR] = address._replace(netloc=relay.host).geturl()
        elif not address.scheme:
            mounts += ["--volume", f"{Path(mirror).absolute()}:{Path(mirror).absolute()}:ro"]
    return found, mounts
