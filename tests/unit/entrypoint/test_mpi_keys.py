"""mpi_keys: ssh between a job's hosts works with keys made at start, and with no others; a real sshd on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import free_port
from supervised import HANG_BOUND

from launch.base.errors import DATA, NO_INPUT, NO_PERMISSION, LaunchError
from launch.plan.network import Network
from launch.plan.strategies import mpi_keys

HOSTS = ("algo-1", "127.0.0.1")  # the second is connected to under its name


@pytest.fixture
def openssh() -> None:
    """The programs of OpenSSH, which the images have and a developer's machine may not."""
    if not (shutil.which("ssh") and shutil.which("ssh-keygen") and Path(mpi_keys.server("")[0]).exists()):
        pytest.skip("needs openssh-client and openssh-server")


class Cluster:
    """The run directories of a leader and one other host, and that host's ssh server."""

    def __init__(self, folder: Path, network: Network = Network({}, {HOSTS[0]: "127.0.0.1"}, ("127.0.0.1",))) -> None:  # noqa: B008
        self.port = free_port()
        self.folders = {host: str(folder / host / "run") for host in HOSTS}
        keys = {host: mpi_keys.make(self.folders[host], leads=host == HOSTS[0]) for host in HOSTS}
        for host in HOSTS:
            mpi_keys.install(mpi_keys.Site(self.folders[host], HOSTS, host, self.port), keys, network)
        argv = mpi_keys.server(self.folders[HOSTS[1]])
        self.server = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + HANG_BOUND
        while not self.is_listening() and time.monotonic() < deadline:
            time.sleep(0.02)

    def is_listening(self) -> bool:
        """Whether the server is up."""
        with socket.socket() as probe:
            return probe.connect_ex((HOSTS[1], self.port)) == 0

    def ssh(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the other host as the leader's mpirun does."""
        argv = ["ssh", "-F", f"{self.folders[HOSTS[0]]}/{mpi_keys.CLIENT_CONFIG}", *options, HOSTS[1], command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=HANG_BOUND, stdin=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path: Path, openssh: None) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.server.terminate()
    made.server.wait(HANG_BOUND)


def test_the_leader_runs_commands_on_the_other_host(cluster: Cluster) -> None:
    done = cluster.ssh("echo hello; exit 5")
    assert (done.returncode, done.stdout) == (5, "hello\n"), done.stderr


def test_another_key_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    mpi_keys.make(str(stranger), leads=True)
    shutil.copy(stranger / mpi_keys.USER_KEY, Path(cluster.folders[HOSTS[0]]) / mpi_keys.USER_KEY)
    done = cluster.ssh("echo entered")
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_a_password_is_never_asked_for(cluster: Cluster) -> None:
    options = (
        "-o",
        "BatchMode=no",
        "-o",
        "PreferredAuthentications=password,keyboard-interactive",
        "-o",
        "IdentityFile=none",
    )
    done = cluster.ssh("echo entered", *options)
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_a_server_that_shows_another_host_key_is_not_trusted(cluster: Cluster, tmp_path: Path) -> None:
    known = Path(cluster.folders[HOSTS[0]]) / mpi_keys.KNOWN_HOSTS
    other = mpi_keys.make(str(tmp_path / "other"), leads=False)
    known.write_text(f"[{HOSTS[1]}]:{cluster.port} {other}\n")
    done = cluster.ssh("echo entered")
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_an_unknown_host_is_not_trusted_on_first_use(cluster: Cluster) -> None:
    (Path(cluster.folders[HOSTS[0]]) / mpi_keys.KNOWN_HOSTS).write_text("")
    assert "Host key verification failed" in cluster.ssh("echo entered").stderr


def test_nothing_can_be_forwarded(cluster: Cluster) -> None:
    done = cluster.ssh("true", "-o", "ExitOnForwardFailure=yes", "-R", f"{free_port()}:127.0.0.1:1")
    assert done.returncode == 255
    assert "remote port forwarding failed" in done.stderr


def test_the_private_half_is_readable_by_its_user_alone_and_on_the_leader_alone(cluster: Cluster) -> None:
    for host, folder in cluster.folders.items():
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        for path in Path(folder).iterdir():
            assert path.name.endswith(".pub") or stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (Path(folder) / mpi_keys.USER_KEY).exists() == (host == HOSTS[0])
    assert "PRIVATE" not in "".join(path.read_text() for path in Path(cluster.folders[HOSTS[1]]).glob("*_config"))


def test_every_job_has_keys_of_its_own(tmp_path: Path, openssh: None) -> None:
    folder = str(tmp_path / "run")
    first = mpi_keys.make(folder, leads=True)
    assert first.startswith("ssh-ed25519 ")
    assert mpi_keys.make(folder, leads=True) != first


def test_nothing_is_left_after_the_job(cluster: Cluster) -> None:
    for folder in cluster.folders.values():
        mpi_keys.remove(folder)
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        7,
        "ssh-rsa AAAA",
        "ssh-ed25519 " + "A" * 68 + "\nssh-ed25519 evil",
        'command="x" ssh-ed25519 ' + "A" * 68,
    ],
)
def test_what_is_no_key_is_written_nowhere(tmp_path: Path, key: object) -> None:
    keys = {"algo-1": key, HOSTS[1]: "ssh-ed25519 " + "A" * 68}
    with pytest.raises(LaunchError, match="ssh to algo-1") as error:
        mpi_keys.install(mpi_keys.Site(str(tmp_path), HOSTS, HOSTS[1], 22), keys, Network())
    assert error.value.exit_code == DATA
    assert list(tmp_path.iterdir()) == []


def test_an_image_without_openssh_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="ssh-keygen is not installed") as error:
        mpi_keys.make(str(tmp_path / "run"), leads=True)
    assert error.value.exit_code == NO_INPUT


def test_the_server_takes_the_leaders_key_from_the_leaders_address_alone_and_listens_where_the_job_is(
    tmp_path: Path,
) -> None:
    keys = dict.fromkeys(HOSTS, "ssh-ed25519 " + "A" * 68)
    site = mpi_keys.Site(str(tmp_path), HOSTS, HOSTS[1], 2200)
    mpi_keys.install(site, keys, Network({}, {"algo-1": "10.0.0.1"}, ("10.0.0.2", "fd00::2")))
    assert (tmp_path / mpi_keys.AUTHORIZED_KEYS).read_text() == f'from="10.0.0.1",restrict {keys["algo-1"]}\n'
    config = (tmp_path / mpi_keys.SERVER_CONFIG).read_text()
    assert config.startswith("Port 2200\nListenAddress 10.0.0.2\nListenAddress fd00::2\n")


def test_a_host_whose_name_does_not_resolve_is_known_by_its_address(tmp_path: Path) -> None:
    keys = dict.fromkeys(HOSTS, "ssh-ed25519 " + "A" * 68)
    hosts = ("127.0.0.1", "algo-1")
    mpi_keys.install(mpi_keys.Site(str(tmp_path), hosts, hosts[0], 2200), keys, Network({"algo-1": "10.0.0.9"}))
    assert (tmp_path / mpi_keys.KNOWN_HOSTS).read_text().startswith("[algo-1]:2200,[10.0.0.9]:2200 ssh-ed25519 ")


def test_a_user_without_a_name_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(LaunchError, match=r"an entry for user 54321 in /etc/passwd.*Horovod") as error:
        mpi_keys.make(str(tmp_path / "run"), leads=True)
    assert error.value.exit_code == NO_PERMISSION
