"""ssh for one job of MPI: keys made at start, exchanged over the authenticated group, good for this job's hosts alone.

The leader makes a user key, every other host a host key. Private halves stay in each host's run directory (0700);
public halves travel as facts on joining the group. The leader then trusts exactly these host keys, the others accept
exactly that user key, in a server of their own on a port of its own.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess

from launch.base import private_files
from launch.base.errors import CANNOT_CREATE, DATA, NO_INPUT, NO_PERMISSION, LaunchError, shown
from launch.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from launch.plan.network import Network

USER_KEY, HOST_KEY = "user_key", "host_key"
CLIENT_CONFIG, SERVER_CONFIG = "ssh_config", "sshd_config"
KNOWN_HOSTS, AUTHORIZED_KEYS = "known_hosts", "authorized_keys"
FILES = (USER_KEY, f"{USER_KEY}.pub", HOST_KEY, f"{HOST_KEY}.pub", CLIENT_CONFIG, SERVER_CONFIG, KNOWN_HOSTS)
SEPARATION_FOLDER = "/run/sshd"  # Debian's sshd insists on it when root starts it
KEYGEN_BOUND = 30.0  # seconds
ALIVE_INTERVAL, ALIVE_COUNT = 15, 4  # a connection that is silent for a minute is given up by both ends

_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}")


class Site(NamedTuple):
    """Where and for whom ssh is set up."""

    run_dir: str
    hosts: Sequence[str]  # the distributed ones, the leader first
    host: str  # this one
    port: int


def make(run_dir: str, leads: bool) -> str:
    """Make this host's key in `run_dir` and return its public half, `ssh-ed25519 ...`, to be told to the others.

    The leader's is the key it logs in with, another host's the one its server shows. Raises LaunchError without
    ssh-keygen, where `run_dir` cannot be made private, or for a user without a name.
    """
    path = f"{run_dir}/{USER_KEY if leads else HOST_KEY}"
    _user()  # before anything else: without a name no ssh works
    private_files.folder(run_dir)
    try:
        remove(run_dir)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=KEYGEN_BOUND)
    except FileNotFoundError as error:
        raise LaunchError(NO_INPUT, "ssh-keygen is not installed", remedy="use an image with OpenSSH") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(CANNOT_CREATE, "no ssh key can be made", where=run_dir, found=str(error)) from error
    if done.returncode:
        found = done.stderr.decode("utf-8", "replace").strip()
        raise LaunchError(CANNOT_CREATE, "no ssh key can be made", where=run_dir, found=found)
    with open(f"{path}.pub", encoding="ascii") as file:
        return " ".join(file.read().split()[:2])


def install(site: Site, public_keys: Mapping[str, Any], network: Network) -> None:
    """Write what `ssh -F RUN_DIR/ssh_config HOST` on the leader, or `sshd -f RUN_DIR/sshd_config` elsewhere, reads.

    `public_keys` (host -> what `make` returned there) came from other hosts and are checked. Raises LaunchError (DATA)
    for one that is no key.
    """
    for name in site.hosts:
        if not isinstance(public_keys.get(name), str) or not _PUBLIC_KEY.fullmatch(public_keys[name]):
            raise LaunchError(
                DATA,
                "public key",
                where=f"ssh to {name}",
                expected="an ed25519 key",
                found=shown(public_keys.get(name)),
                remedy="see that host's log, and that every host runs this image",
            )
    leader = site.hosts[0]
    if site.host == leader:
        known = [f"{_known_names(name, site.port, network)} {public_keys[name]}\n" for name in site.hosts[1:]]
        _write(site, KNOWN_HOSTS, "".join(known))
        _write(site, CLIENT_CONFIG, _client_config(site))
        return
    # `restrict`: no forwarding, no terminal, no agent; commands are what mpirun comes for.
    origin = network.sources.get(leader)
    only_from = f'from="{origin}",' if origin else ""
    _write(site, AUTHORIZED_KEYS, f"{only_from}restrict {public_keys[leader]}\n")
    _write(site, SERVER_CONFIG, _server_config(site, network.listen))
    if os.geteuid() == 0:
        os.makedirs(SEPARATION_FOLDER, mode=0o755, exist_ok=True)


def remove(run_dir: str) -> None:
    """Take the keys and what was written for them away."""
    for name in (*FILES, AUTHORIZED_KEYS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{run_dir}/{name}")


def server(run_dir: str) -> tuple[str, ...]:
    """The command that serves this host; sshd wants its own absolute path."""
    return (shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", f"{run_dir}/{SERVER_CONFIG}")


def _known_names(host: str, port: int, network: Network) -> str:
    """A host under each name that mpirun may call it by."""
    names = dict.fromkeys((host, network.addresses.get(host, host)))
    return ",".join(name if port == 22 else f"[{name}]:{port}" for name in names)


def _client_config(site: Site) -> str:
    run_dir = site.run_dir
    return f"""\
Host *
  Port {site.port}
  User {_user()}
  IdentityFile "{run_dir}/{USER_KEY}"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{run_dir}/{KNOWN_HOSTS}"
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  CheckHostIP no
  UpdateHostKeys no
  HostKeyAlgorithms ssh-ed25519
  PreferredAuthentications publickey
  BatchMode yes
  ConnectTimeout 30
  ConnectionAttempts 5
  ServerAliveInterval {ALIVE_INTERVAL}
  ServerAliveCountMax {ALIVE_COUNT}
  LogLevel ERROR
"""


def _server_config(site: Site, addresses: Sequence[str]) -> str:
    """StrictModes would look at every folder above the keys; `make` has made the one that counts private."""
    run_dir = site.run_dir
    listening = "".join(f"ListenAddress {address}\n" for address in addresses)
    return f"""\
Port {site.port}
{listening}HostKey "{run_dir}/{HOST_KEY}"
AuthorizedKeysFile "{run_dir}/{AUTHORIZED_KEYS}"
AllowUsers {_user()}
PermitRootLogin prohibit-password
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
UseDNS no
DisableForwarding yes
PermitUserEnvironment no
PermitUserRC no
PrintMotd no
PrintLastLog no
LoginGraceTime 30
MaxStartups 256
ClientAliveInterval {ALIVE_INTERVAL}
ClientAliveCountMax {ALIVE_COUNT}
LogLevel ERROR
"""


def _user() -> str:
    """The name to log in under. Raises LaunchError where there is none: ssh, ssh-keygen and sshd all end then."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as error:
        raise LaunchError(
            NO_PERMISSION,
            "this user has no name, and ssh does not work without one",
            where="MPI over several hosts",
            expected=f"an entry for user {os.geteuid()} in /etc/passwd",
            found="none",
            remedy="start the container as root or as a user of the image, add the entry, or use Horovod without MPI "
            "(sagemaker_horovod_enabled)",
        ) from error


def _write(site: Site, name: str, content: str) -> None:
    private_files.write(f"{site.run_dir}/{name}", content)
