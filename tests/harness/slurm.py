"""A real Slurm for tests: slurmctld, munged and two slurmd on this machine, each node in namespaces of its own.

    with Slurm(folder, cache) as slurm:
        done = slurm.srun("-N2", "--ntasks-per-node=1", "hostname")

The Debian packages are unpacked into a cache, never installed. Nodes have their own network, host name, /etc/hosts and
/opt/ml; runc starts their OCI bundles. A job in the partition `urgent` takes nodes from jobs in `spot`, which are told
so a grace before. Leaving the `with` ends every process in the namespaces and removes these, whatever happened.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from dlc.core.process import Completed, run_program

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
NODES = ("n1", "n2")
NETWORK = "10.213.71"  # addresses in namespaces that nothing else can reach
START_SECONDS = 180.0  # only a hang takes that long
# Slurm starts no job again before the credentials of its last start have expired; a step has to begin meanwhile.
START_AGAIN_SECONDS = 45
# From the notice that a node is taken away to the end of its job.
NOTICE_SECONDS = 60
NODE_MEBIBYTES = 8192
POLL_SECONDS = 0.1

CONFIG = """\
ClusterName=dlc
SlurmctldHost={controller}({network}.254)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={start_again}
PluginDir={plugins}
PlugStackConfig={folder}/plugstack.conf
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=20
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES PreemptMode=OFF
PartitionName=spot Nodes={names} MaxTime=INFINITE State=UP PriorityTier=1 GraceTime={notice}
PartitionName=urgent Nodes={names} MaxTime=INFINITE State=UP PriorityTier=2
"""
# What `srun --container` runs. A task's bundle is a copy of the named one, with the task's own command.
OCI_CONFIG = """\
RunTimeQuery="{runc} state %n.%u.%j.%s.%t"
RunTimeRun="{runc} run %n.%u.%j.%s.%t -b %b"
RunTimeKill="{runc} kill -a %n.%u.%j.%s.%t"
RunTimeDelete="{runc} delete --force %n.%u.%j.%s.%t"
"""


def can_run(*programs: str) -> str:
    """Why no Slurm can be started here that needs these programs too, or the empty string."""
    needed = ("apt-get", "dpkg-deb", "ip", "nsenter", "unshare", *programs)
    missing = [tool for tool in needed if shutil.which(tool) is None]
    return "not root" if os.geteuid() != 0 else f"no {', '.join(missing)}" if missing else ""


def unpacked(cache: Path) -> Path:
    """The folder with Slurm's and munge's files; downloaded and unpacked where it is not there yet."""
    root = cache / "root"
    if root.exists():
        return root
    archives, draft = cache / "archives", cache / f"draft-{os.getpid()}"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    run_program(["apt-get", "-q", "update"], timeout=300)
    only = ("--download-only", "--no-install-recommends", "--reinstall", "-o", f"Dir::Cache::archives={archives}")
    run_program(["apt-get", "-q", "-y", *only, "install", *PACKAGES], timeout=300)
    for package in sorted(archives.glob("*.deb")):
        run_program(["dpkg-deb", "--extract", str(package), str(draft)])
    draft.rename(root)
    return root


class Slurm:
    """A running Slurm. `folder` takes its state and, below `ml/NODE`, what each node sees as `self.opt_ml`."""

    def __init__(self, folder: Path, cache: Path, nodes: Sequence[str] = NODES) -> None:
        self.folder = folder
        self.nodes = nodes
        self.opt_ml = folder / "opt-ml"  # the same path on every node, another folder behind it
        self._root = unpacked(cache)
        self._libraries = next(self._root.glob("usr/lib/*-linux-gnu"))
        self._hub = f"dlc-slurm-{os.getpid()}"  # the controller's network namespace; each node's: with the node's name
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environ = {
            "PATH": f"{self._root}/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{self._libraries}:{self._libraries}/slurm-wlm",
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def node_ml(self, node: str) -> Path:
        """The folder that this node sees as `opt_ml`."""
        return self.folder / "ml" / node

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as unless_all_start:
            unless_all_start.callback(self._remove)
            self._write_files()
            self._make_networks()
            self._start_daemons()
            unless_all_start.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._remove()

    def srun(self, *argv: str, env: dict[str, str] | None = None, seconds: float = 120.0) -> Completed:
        """Run `srun` to its end; its exit code is that of the worst task."""
        return self.command("srun", *argv, env=env, seconds=seconds)

    def command(self, *argv: str, env: dict[str, str] | None = None, seconds: float = 120.0) -> Completed:
        """Run a program of Slurm (or any other) on the controller."""
        words = (*self._inside(self._hub), *argv)
        return run_program(words, env={**self.environ, **(env or {})}, check=False, timeout=seconds)

    def start(self, *argv: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """The same, without waiting for its end."""
        return subprocess.Popen(
            [*self._inside(self._hub), *argv],
            env={**os.environ, **self.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self, node: str) -> list[str]:
        """The command lines of a node's processes, without Slurm's own daemons."""
        found = []
        for pid in self._pids(f"{self._hub}-{node}"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip())
        return [line for line in found if line and "slurmd-wlm" not in line and "slurmstepd" not in line]

    # What it is made of

    def _write_files(self) -> None:
        nodes = "\n".join(
            f"NodeName={node} NodeAddr={NETWORK}.{number} CPUs=4 RealMemory={NODE_MEBIBYTES} State=UNKNOWN"
            for number, node in enumerate(self.nodes, 1)
        )
        config = CONFIG.format(
            controller=os.uname().nodename,
            network=NETWORK,
            folder=self.folder,
            plugins=self._libraries / "slurm-wlm",
            nodes=nodes,
            names=",".join(self.nodes),
            start_again=START_AGAIN_SECONDS,
            notice=NOTICE_SECONDS,
        )
        (self.folder / "slurm.conf").write_text(config)
        runc = f"runc --root={self.folder}/runc"
        (self.folder / "oci.conf").write_text(OCI_CONFIG.format(runc=runc))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "plugstack.conf").touch()
        hosts = "".join(f"{NETWORK}.{number} {node}\n" for number, node in enumerate(self.nodes, 1))
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        spools = (self.folder / f"spool-{node}" for node in self.nodes)
        for folder in (self.opt_ml, self.folder / "state", *spools, *map(self.node_ml, self.nodes)):
            folder.mkdir(parents=True)

    def _make_networks(self) -> None:
        """A bridge in the controller's namespace, so that no rule and no bridge of this machine takes part."""
        run_program(["ip", "netns", "add", self._hub])
        inside = self._inside(self._hub)
        run_program([*inside, "ip", "link", "add", "bridge", "type", "bridge"])
        run_program([*inside, "ip", "address", "add", f"{NETWORK}.254/24", "dev", "bridge"])
        for device in ("bridge", "lo"):
            run_program([*inside, "ip", "link", "set", device, "up"])
        for number, node in enumerate(self.nodes, 1):
            name = f"{self._hub}-{node}"
            run_program(["ip", "netns", "add", name])
            run_program([*inside, "ip", "link", "add", node, "type", "veth", "peer", "name", "eth0", "netns", name])
            run_program([*inside, "ip", "link", "set", node, "master", "bridge", "up"])
            run_program([*self._inside(name), "ip", "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0"])
            for device in ("eth0", "lo"):
                run_program([*self._inside(name), "ip", "link", "set", device, "up"])
            run_program([*self._inside(name), "ip", "route", "add", "default", "via", f"{NETWORK}.254"])

    def _start_daemons(self) -> None:
        folder, sbin = self.folder, self._root / "usr/sbin"
        own = (
            "key-file=munge.key",
            "socket=munge.socket",
            "pid-file=munge.pid",
            "log-file=munge.log",
            "seed-file=seed",
        )
        options = [f"--{option.replace('=', f'={folder}/', 1)}" for option in own]
        self._daemon([str(sbin / "munged"), "--foreground", "--force", *options])
        self._until(lambda: (folder / "munge.socket").exists(), "munged listens")
        self._daemon([*self._inside(self._hub), str(sbin / "slurmctld-wlm"), "-D"])
        for node in self.nodes:
            script = (
                'hostname "$1" && mount --bind "$2/hosts" /etc/hosts && mount --bind "$2/ml/$1" "$2/opt-ml" '
                '&& exec "$3/slurmd-wlm" -D -d "$3/slurmstepd-wlm"'
            )
            words = ("unshare", "--mount", "--uts", "sh", "-c", script, "sh", node, str(folder), str(sbin))
            self._daemon([*self._inside(f"{self._hub}-{node}"), *words])
        idle = ["idle", str(len(self.nodes))]
        ask = ("sinfo", "-h", "-p", "all", "-o", "%T %D")
        self._until(lambda: self.command(*ask).stdout.split() == idle, "nodes are idle")

    def _daemon(self, argv: Sequence[str]) -> None:
        with (self.folder / "daemons.log").open("ab") as log:
            self._daemons.append(
                # In the folder: one that crashes leaves its core there.
                subprocess.Popen(
                    argv,
                    cwd=self.folder,
                    env={**os.environ, **self.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in self.folder.glob("*.log"))
                raise AssertionError(f"not within {START_SECONDS:g} s: {what}\n{logs}")
            time.sleep(POLL_SECONDS)

    def _inside(self, namespace: str) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{namespace}")

    def _pids(self, namespace: str) -> list[int]:
        found = run_program(["ip", "netns", "pids", namespace], check=False)
        return [int(pid) for pid in found.stdout.split()]

    def _remove(self) -> None:
        namespaces = [*(f"{self._hub}-{node}" for node in self.nodes), self._hub]
        for namespace in namespaces[:-1]:
            for pid in self._pids(namespace):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for daemon in reversed(self._daemons):
            daemon.terminate()  # slurmctld has a child, which it ends
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for namespace in namespaces:
            run_program(["ip", "netns", "delete", namespace], check=False)
