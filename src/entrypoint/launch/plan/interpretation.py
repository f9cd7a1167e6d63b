"""Reads all there is to know about a job on this host and decides what it becomes; starts and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from launch.base import ports
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import DEFAULT_BASE, Paths
from launch.base.private_files import default_folder
from launch.base.process_spec import Decision, Launch, ProcessSpec
from launch.discovery import cluster as cluster_module
from launch.discovery import devices as devices_module
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.job import entry_point
from launch.job import parameters as job_module
from launch.job.parameters import Job
from launch.plan import strategies
from launch.plan.compiler import compiler_decisions, compiler_variables
from launch.plan.context import Context
from launch.plan.environment import AGGREGATES, sm_variables
from launch.plan.frameworks import framework_variables, installed
from launch.plan.install import installation
from launch.plan.network import Network, network_variables

DEFAULT_VENV = "/opt/venv"
GROUPS = "sagemaker_distribution_instance_groups"


class Request(NamedTuple):
    """What was asked for, of whom, on which hardware: all of it before the user's code is at hand."""

    environ: Mapping[str, str]
    paths: Paths
    cluster: Cluster
    devices: Devices
    job: Job
    strategy: strategies.Request | None
    groups: tuple[str, ...]  # names of the distributed groups
    installed: frozenset[str]  # libraries of the image (frameworks.py)
    network: Network = Network()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the distributed group in rank order; () when nothing is distributed."""
        return self.cluster.hosts_of(self.groups) if self.strategy else ()

    @property
    def run_dir(self) -> str:
        """Where this host's launcher keeps private files of the job."""
        return self.environ.get("DLC_RUN_DIR") or default_folder()

    @property
    def needs_ssh(self) -> bool:
        """Whether this host is one of several that mpirun's ranks run on."""
        below_mpi = self.strategy is not None and self.strategy.strategy == "mpi"
        return below_mpi and len(self.hosts) > 1 and self.cluster.current_host in self.hosts

    @property
    def members(self) -> tuple[str, ...]:
        """The hosts whose end this host waits for and, on the leader, those whose end is the job's.

        Below MPI the leader's mpirun is the whole job. With TensorFlow 2's parameter servers the chief is: its workers
        serve it for ever. The platform's workers (`master` in TF_CONFIG) train by themselves, and each counts.
        """
        if len(self.group_hosts) < 2:
            return ()
        if self.strategy is None:
            return self.group_hosts
        leads = self.cluster.current_host == self.hosts[0]
        served = self.strategy.strategy == "tf_parameter_server" and self.environ.get("DLC_TF_CHIEF") == "chief"
        only_leader = self.strategy.strategy == "mpi" or (leads and served)
        return self.hosts[:1] if only_leader else self.hosts

    @property
    def group_hosts(self) -> tuple[str, ...]:
        """The hosts that end together. With a strategy and without stated groups each group is a job of its own."""
        if not self.strategy:
            return self.cluster.hosts
        return self.cluster.hosts if GROUPS in self.job.parameters else self.hosts


class Interpretation(NamedTuple):
    """The request and this host's part in it."""

    request: Request
    context: Context
    launch: Launch
    install: tuple[ProcessSpec, ...] = ()  # what the user's code needs; every host is ready before any starts `launch`

    def with_decision(self, decision: Decision) -> Interpretation:
        """The same, with one more decision made known."""
        return self._replace(launch=self.launch._replace(decisions=(*self.launch.decisions, decision)))


def read(environ: Mapping[str, str], extra: Sequence[str] = (), root: str = "/") -> Request:
    """Read the config files, the environment and the hardware; `extra` arguments are for the script.

    Raises LaunchError: the first thing that is wrong.
    """
    paths = Paths(environ.get("SAGEMAKER_BASE_DIR") or DEFAULT_BASE)
    cluster = cluster_module.discover(environ, paths)
    job = job_module.read(environ, paths, extra)
    libraries = installed(_venv(environ))
    strategy = strategies.requested(job, environ, len(cluster.hosts), libraries)
    return Request(
        environ=environ,
        paths=paths,
        cluster=cluster,
        devices=devices_module.detect(environ, root),
        job=job,
        strategy=strategy,
        groups=_groups(job, cluster, strategy is not None or bool(strategies.asked(job))),
        installed=libraries,
    )


def decide(request: Request, folder: str = "") -> Interpretation:
    """This host's processes. `folder` shows the user's code, which is in the code directory unless it says otherwise.

    Raises LaunchError: no or unusable entry point, a strategy that cannot run it.
    """
    folder = folder or request.paths.code
    job = request.job._replace(program=entry_point.relative_name(request.job.program, request.paths.code))
    context = Context(
        cluster=request.cluster,
        devices=request.devices,
        job=job,
        entry=entry_point.resolve(job.program, folder),
        hosts=request.hosts,
        env=_environment(request._replace(job=job)),
        environ=request.environ,
        paths=request.paths,
        venv=_venv(request.environ),
        run_dir=request.run_dir,
        installed=request.installed,
        network=request.network,
    )
    launch = strategies.plan(context, request.strategy)
    hosts = Decision(f"hosts {', '.join(request.cluster.hosts)}", f"from {request.cluster.source}")
    decisions = (hosts, *launch.decisions, *compiler_decisions(job), *_left_out(context.env))
    return Interpretation(request, context, launch._replace(decisions=decisions), installation(context, folder))


def _left_out(env: Mapping[str, str]) -> list[Decision]:
    why = "too long for a variable; input/config/resourceconfig.json and the other SM_* variables say the same"
    return [Decision(f"warning: {name} is left out", why) for name in AGGREGATES if name not in env]


def python(environ: Mapping[str, str]) -> str:
    """The interpreter of the user's code, which sees the image's packages."""
    return f"{_venv(environ)}/bin/python"


def _venv(environ: Mapping[str, str]) -> str:
    return environ.get("DLC_VENV") or DEFAULT_VENV


def _groups(job: Job, cluster: Cluster, distributed: bool) -> tuple[str, ...]:
    """The groups that the job is distributed over: the stated ones, else each host's own (as the platform has it)."""
    stated = job.parameters.get(GROUPS)
    if stated is None:
        return (cluster.current_group,) if distributed else ()
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
    return tuple(stated)


def _environment(request: Request) -> dict[str, str]:
    """The whole environment of a plain process: the user's, our defaults where they have none, and the contract's."""
    environ, job, paths = request.environ, request.job, request.paths
    env = {**_defaults(request), **environ}
    env.pop("DLC_JOB_TOKEN", None)  # the launchers' secret; user code and what it logs have no need of it
    env["PATH"] = f"{_venv(environ)}/bin:{environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    env["PYTHONPATH"] = ":".join(filter(None, [paths.code, environ.get("PYTHONPATH", "")]))
    env["CURRENT_HOST"] = request.cluster.current_host
    env["SAGEMAKER_JOB_NAME"] = job.text("sagemaker_job_name")
    env["SAGEMAKER_REGION"] = _region(request)
    env.update(sm_variables(request.cluster, request.devices, job, request.groups, paths, environ))
    return env


def _defaults(request: Request) -> dict[str, str]:
    hosts = request.hosts or request.cluster.hosts
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "MASTER_ADDR": request.network.addresses.get(hosts[0], hosts[0]),
        "MASTER_PORT": str(ports.of(request.environ, ports.MASTER)),
        **network_variables(request.cluster, request.devices),
        **compiler_variables(request.job, request.installed, request.paths),
        **framework_variables(request.installed, _region(request)),
    }


def _region(request: Request) -> str:
    return request.job.text("sagemaker_region") or request.environ.get("AWS_REGION", "")
