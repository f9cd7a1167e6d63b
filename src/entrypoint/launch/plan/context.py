"""What a strategy is given: all that is known about a job on this host. Imports base, discovery, job, network."""

from __future__ import annotations

import re

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths
from launch.base.process_spec import ProcessSpec
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.job.entry_point import EntryPoint
from launch.job.hyperparameters import Job
from launch.plan.network import Network, address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


# More is not searched
LARGEST_SCRIPT_BYTES = 4 * 1024 * 1024
# Of any strategy, in spite of its name
PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"


class Context(NamedTuple):
    """The input of a strategy. `hosts`: the distributed group's, in rank order."""

    cluster: Cluster
    devices: Devices
    job: Job
    entry: EntryPoint
    hosts: tuple[str, ...]
    # That of a plain process of this job
    env: Mapping[str, str]
    # The launcher's own: what the user set
    environ: Mapping[str, str]
    paths: Paths
    venv: str
    # Where this launcher keeps private files
    run_dir: str
    # What lies beside the frameworks of the image; empty: unknown
    installed: frozenset[str]
    network: Network = Network()
    # Whether the code brings packages that `installed` does not know
    installs: bool = False

    @property
    def python(self) -> str:
        return f"{self.venv}/bin/python"

    @property
    def host_rank(self) -> int:
        """Return this host's place in the distributed group; only for hosts in it."""
        return self.hosts.index(self.cluster.current_host)

    @property
    def leader(self) -> str:
        """Return the first host of the distributed group, as listed."""
        return self.hosts[0]

    def address(self, host: str) -> str:
        """Return what reaches a host."""
        return address_of(host, self.cluster, self.network)

    @property
    def processes_per_host(self) -> int:
        """Return the job's number, else Kubeflow's, else one for each accelerator."""
        stated = self.environ.get("PET_NPROC_PER_NODE", "")
        own = int(stated) if re.fullmatch(r"[1-9][0-9]{0,3}", stated) else 0
        own = self.devices.usable_cpus if stated == "cpu" else own
        return self.job.number(PROCESSES_PER_HOST) or own or self.devices.accelerators

    def process(
        self,
        argv: tuple[str, ...],
        role: str,
        rank: int,
        variables: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
        essential: bool = True,
    ) -> ProcessSpec:
        """Make a process in the code directory; `defaults` are set only if the user did not set them."""
        env = {**self.env, **(variables or {})}
        env.update({name: value for name, value in (defaults or {}).items() if name not in self.environ})
        return ProcessSpec(argv, env, self.paths.code, role, rank, essential)

    def script_has(self, pattern: bytes) -> bool:
        """Return whether the entry point is a Python script that has the pattern."""
        if self.entry.kind != "script":
            return False
        try:
            with open(f"{self.paths.code}/{self.entry.name}", "rb") as file:
                return re.search(pattern, file.read(LARGEST_SCRIPT_BYTES), re.MULTILINE) is not None
        except OSError:
            return False

    def require_script(self, strategy: str) -> None:
        """Raise LaunchError unless the entry point is a Python script: the strategy starts Python."""
        if self.entry.kind not in ("script", "module"):
            raise LaunchError(
                CONFIG,
                "unsupported type of entry point",
                where="sagemaker_program",
                expected=f"a Python script for {strategy}",
                found=f"the {self.entry.kind} {self.entry.name}{self.entry.explain_package(self.paths.code)}",
            )
