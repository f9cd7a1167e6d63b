"""All that is known about a job on this host before the user's code is at hand. Starts and writes nothing."""

from __future__ import annotations

from launch.base import settings
from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.files import default_private_folder
from launch.base.paths import DEFAULT_VENV, STEPS_FOLDER, Paths, stated_folder
from launch.base.settings import is_on
from launch.discovery import discover
from launch.discovery.cluster import Cluster, interface_of_default_route
from launch.discovery.devices import Devices, detect_devices, find_interface
from launch.job import instance_groups
from launch.job.hyperparameters import GROUPS, Job, read_job
from launch.plan.compiler_choice import CompilerChoice, choose_compiler
from launch.plan.frameworks import Framework, find_installed, load_frameworks
from launch.plan.network import Network
from launch.plan.strategies import PLAIN, Question, Strategy, StrategyChoice
from launch.plan.strategy import choose_strategy, requested_strategies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Request(NamedTuple):
    """What was asked for, of whom, on which hardware: all of it before the user's code is at hand."""

    environ: Mapping[str, str]
    paths: Paths
    cluster: Cluster
    devices: Devices
    job: Job
    strategy: StrategyChoice | None
    # Names of the distributed groups
    groups: tuple[str, ...]
    # Libraries of the image (frameworks)
    installed: frozenset[str]
    network: Network = Network()

    @property
    def row(self) -> Strategy:
        """Return the strategy, that of a plain process if the job has none."""
        return self.strategy.row if self.strategy else PLAIN

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the distributed group in rank order; () if nothing is distributed."""
        return self.cluster.hosts_of(self.groups) if self.strategy else ()

    @property
    def connected_hosts(self) -> tuple[str, ...]:
        """Return the hosts that connect to each other: the strategy's, of a plain job perhaps all."""
        return self.hosts or self.group_hosts

    @property
    def leads(self) -> bool:
        """Return whether the first rank runs on this host, or processes of its own alone."""
        return not self.hosts or self.hosts[0] == self.cluster.current_host

    @property
    def run_dir(self) -> str:
        """Return the folder of this host's launcher for private files of the job."""
        return stated_folder(self.environ, "DLC_RUN_DIR", default_private_folder())

    @property
    def steps_folder(self) -> str:
        """Return where the processes of this host count their steps; empty if they do not."""
        return f"{self.run_dir}/{STEPS_FOLDER}" if is_on(self.environ, "DLC_STEPS") else ""

    @property
    def compiler(self) -> CompilerChoice:
        """Return the compiler that the job asks for."""
        return choose_compiler(self.environ, self.job, self.row.compiler)

    @property
    def frameworks(self) -> list[Framework]:
        """Return the frameworks of the image, all that are known if that cannot be told."""
        return load_frameworks(self.installed)

    @property
    def records_collectives(self) -> bool:
        """Return whether ranks talk over NCCL here, and their framework can say who waits for whom."""
        is_recorded = bool(self.installed) and any(row.records_collectives for row in self.frameworks)
        return self.strategy is not None and self.devices.num_gpus > 0 and is_recorded

    @property
    def starts_remotely(self) -> bool:
        """Return whether this host is one of several whose ranks the first one starts."""
        return self.row.starts_remotely and len(self.hosts) > 1 and self.cluster.current_host in self.hosts

    @property
    def members(self) -> tuple[str, ...]:
        """Return the hosts whose end this host waits for and, on the leader, those whose end is the job's.

        Those are all of the strategy, unless its row says that one process on the leader is the job.
        """
        if len(self.group_hosts) < 2:
            return ()
        ending = self.group_hosts
        if self.strategy:
            is_served = self.row.is_served(self.environ, self.installed)
            leads = self.cluster.current_host == self.hosts[0]
            ending = self.hosts[:1] if self.row.led or (leads and is_served) else self.hosts
        return tuple(host for host in ending if host not in self.cluster.servers)

    @property
    def data_groups(self) -> tuple[tuple[str, ...], ...]:
        """Return, by instance group, the hosts outside of the distributed groups, which end when those have."""
        if not self.strategy:
            return ()
        known = {group.name: group for group in self.cluster.groups if group.name not in self.groups}
        found = tuple(self.cluster.hosts_of((name,)) for name in known)
        return tuple(hosts for hosts in found if set(hosts) <= set(self.group_hosts))

    @property
    def group_hosts(self) -> tuple[str, ...]:
        """Return the hosts that end together. With a strategy, without stated groups, each group is a job.

        Of tasks that are ranks the place takes care.
        """
        if self.cluster.task:
            return ()
        if not self.strategy:
            return self.cluster.hosts
        together = _stated_groups(self.job) is not None or instance_groups.tf_data_group(self.job.group_programs)
        return self.cluster.hosts if together else self.hosts


def read_request(environ: Mapping[str, str], extra: Sequence[str] = (), root: str = "/") -> Request:
    """Read the config files, the environment and the hardware; `extra` arguments are for the script.

    Raises LaunchError: the first thing that is wrong.
    """
    settings.check_settings(environ)
    paths = Paths.of(environ)
    cluster = discover.discover(environ, paths)
    stated = read_job(environ, paths, extra)
    job = _own_job(stated, cluster, environ)
    cluster = _with_servers(cluster, instance_groups.tf_data_group(job.group_programs))
    libraries = find_installed(job_venv(environ))
    distributed = bool(requested_strategies(job) or environ.get("DLC_STRATEGY"))
    groups = _job_groups(job, cluster, distributed)
    # As in SageMaker's toolkit, a job that is distributed over an empty list of groups is not distributed.
    nowhere = _stated_groups(job) == []
    strategy = None if nowhere else choose_strategy(Question(job, environ, cluster, groups, libraries))
    if strategy and strategy.row.starts_remotely:
        _require_one_program(
            stated, groups or _job_groups(job, cluster, distributed=True), environ, *strategy.row.starters
        )
    return Request(
        environ=environ,
        paths=paths,
        cluster=cluster,
        devices=detect_devices(environ, root),
        job=job,
        strategy=strategy,
        groups=_distributed_groups(job, cluster, strategy, groups),
        installed=libraries,
    )


def with_own_interface(request: Request) -> Request:
    """Return the request with an interface that this host has: if it lacks the stated one, that of its address.

    SDK 3's local mode names ethwe, which no container has. MPI and gloo end at such a name, NCCL finds no network.
    """
    cluster, known = request.cluster, request.devices.interfaces
    stated = cluster.network_interface
    if not known or stated in known:
        return request
    found = find_interface(cluster.current_host, known) or interface_of_default_route()
    return request._replace(cluster=cluster._replace(network_interface=found)) if found in known else request


def _own_job(job: Job, cluster: Cluster, environ: Mapping[str, str]) -> Job:
    """Return the job with the program of this host's group. Raises LaunchError for programs of unknown groups."""
    names = [group.name for group in cluster.groups] or [cluster.current_group]
    instance_groups.check_group_names(job.group_programs, names, instance_groups.setting_name(environ))
    return job._replace(program=job.group_programs.get(cluster.current_group, job.program))


def _with_servers(cluster: Cluster, group: str) -> Cluster:
    """Return the cluster whose data hosts, those of `group`, are known to serve: they never end by themselves.

    Raises LaunchError if no other host is left.
    """
    servers = (*cluster.servers, *(cluster.hosts_of((group,)) if group else ()))
    if group and not set(cluster.hosts) - set(servers):
        raise LaunchError(
            CONFIG, "no host trains", where=f"{instance_groups.SWITCH}, or {instance_groups.PARAMETER}",
            expected="a group whose program is a script", found=f"{shown(group)} with {instance_groups.TF_DATA} alone",
        )  # fmt: skip
    return cluster._replace(servers=servers)


def _require_one_program(job: Job, groups: Sequence[str], environ: Mapping[str, str], starter: str) -> None:
    """Raise LaunchError if a starter of one program would have to start several."""
    if len({job.group_programs.get(name, job.program) for name in groups}) > 1:
        raise LaunchError(
            CONFIG, f"several programs below one {starter}", where=instance_groups.setting_name(environ),
            expected="one program for all groups that train together", found=shown(dict(job.group_programs)),
            remedy=f"name the groups that train together in {GROUPS}",
        )  # fmt: skip


def job_python(environ: Mapping[str, str]) -> str:
    """Return the interpreter of the user's code, which sees the image's packages."""
    return f"{job_venv(environ)}/bin/python"


def job_venv(environ: Mapping[str, str]) -> str:
    return stated_folder(environ, "DLC_VENV", DEFAULT_VENV)


def _stated_groups(job: Job) -> object:
    """Return what the job says of the groups that it is distributed over; None if it says nothing."""
    return job.parameters.get(GROUPS)


def _distributed_groups(
    job: Job, cluster: Cluster, strategy: StrategyChoice | None, groups: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the groups that the strategy runs on, all of them if it takes every host and no group is stated."""
    if strategy is None:
        return groups
    if strategy.row.takes_every_host and _stated_groups(job) is None:
        return tuple(group.name for group in cluster.groups) or (cluster.current_group,)
    return _job_groups(job, cluster, distributed=True)


def _job_groups(job: Job, cluster: Cluster, distributed: bool) -> tuple[str, ...]:
    """Return the groups that the job is distributed over: the stated ones, else all.

    On SageMaker each host's own: without stated groups its toolkit takes each group for a job.
    """
    stated = _stated_groups(job)
    serving = instance_groups.tf_data_group(job.group_programs)
    if stated is None:
        own = (cluster.current_group,)
        every = tuple(group.name for group in cluster.groups if group.name != serving) or own
        # A service for one other group or for all: these are one job
        if serving:
            return every if distributed else ()
        return (own if cluster.each_group_is_a_job else every) if distributed else ()
    known = [group.name for group in cluster.groups] or [cluster.current_group]
    if not isinstance(stated, list) or not all(isinstance(name, str) for name in stated):
        raise LaunchError(
            CONFIG, GROUPS, where=job.hyperparameters_file, expected="a list of group names", found=shown(stated)
        )
    for name in stated:
        if name not in known:
            raise LaunchError(
                CONFIG,
                GROUPS,
                where=job.hyperparameters_file,
                expected=f"names out of {shown(known)}",
                found=shown(name),
            )
    if serving in stated:
        raise LaunchError(
            CONFIG, GROUPS, where=job.hyperparameters_file, expected="groups that train",
            found=f"{shown(serving)}, whose program is {instance_groups.TF_DATA}",
        )  # fmt: skip
    return tuple(stated)
