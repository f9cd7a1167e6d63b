"""Reads all there is to know about a job on this host and decides what it becomes; starts and writes nothing."""

from __future__ import annotations

from launch.base import compat, process_spec, settings
from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.files import default_private_folder
from launch.base.paths import DEFAULT_VENV, Paths, stated_folder
from launch.base.process_spec import Decision, Launch, ProcessSpec
from launch.base.settings import JOB_TOKEN, JOB_TOKEN_FILE
from launch.discovery import devices as devices_module
from launch.discovery import discover
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.job import entry_point, group_programs
from launch.job import parameters as job_module
from launch.job.entry_point import EntryPoint
from launch.job.parameters import GROUPS, Job
from launch.plan import compiler_asked as compiler
from launch.plan import strategies
from launch.plan.compiler_asked import Asked
from launch.plan.context import Context
from launch.plan.environment import left_out, misspelt, sm_variables
from launch.plan.frameworks import (
    accelerate_variables,
    chief_name,
    flight_recorder_variables,
    framework_variables,
    installed,
    keras_variables,
    keras_warning,
)
from launch.plan.install import home_variables, installation, needed, package_variables
from launch.plan.network import Network, data_service_variables, network_variables, reached_at
from launch.plan.strategies import tf_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# torchrun reads these too, where its flags, which hold what they say, leave it a choice.
READ_FOR_TORCHRUN = frozenset(
    f"PET_{name}"
    for name in (
        *("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"),
        *("RDZV_BACKEND", "RDZV_ENDPOINT", "RDZV_ID", "RDZV_CONF", "STANDALONE"),
    )
)
WITHHELD = READ_FOR_TORCHRUN | {JOB_TOKEN, JOB_TOKEN_FILE}
# Of all SM_* these are settings, not what a launcher said to the processes of its job.
USERS_SM = frozenset(("SM_STUDIO_LOCAL_MODE",))
LED = ("mpi", "ray")  # strategies in which one process on the first host is the whole job


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
        return stated_folder(self.environ, "DLC_RUN_DIR", default_private_folder())

    @property
    def compiler(self) -> Asked:
        """The compiler that the job asks for."""
        return compiler.asked(self.environ, self.job, self.strategy.strategy if self.strategy else "")

    @property
    def records_collectives(self) -> bool:
        """Whether PyTorch's ranks talk over NCCL here, so that its flight recorder can say who waits for whom."""
        return self.strategy is not None and self.devices.num_gpus > 0 and "torch" in self.installed

    @property
    def starts_remotely(self) -> bool:
        """Whether this host is one of several that mpirun's ranks run on."""
        below_mpi = self.strategy is not None and self.strategy.strategy == "mpi"
        return below_mpi and len(self.hosts) > 1 and self.cluster.current_host in self.hosts

    @property
    def members(self) -> tuple[str, ...]:
        """The hosts whose end this host waits for and, on the leader, those whose end is the job's.

        Below MPI the leader's mpirun is the whole job, with Ray the leader's script. With TensorFlow 2's parameter
        servers the chief is: its workers serve it for ever. The platform's (`master` in TF_CONFIG) train by themselves,
        and each counts.
        """
        if len(self.group_hosts) < 2:
            return ()
        ending = self.group_hosts
        if self.strategy:
            leads = self.cluster.current_host == self.hosts[0]
            servers = self.strategy.strategy == "tf_parameter_server"
            served = servers and chief_name(self.environ, self.installed)[0] == "chief"
            only_leader = self.strategy.strategy in LED or (leads and served)
            ending = self.hosts[:1] if only_leader else self.hosts
        return tuple(host for host in ending if host not in self.cluster.servers)

    @property
    def data_groups(self) -> tuple[tuple[str, ...], ...]:
        """By instance group, the hosts outside of the distributed groups, which end when those have."""
        if not self.strategy:
            return ()
        known = {group.name: group for group in self.cluster.groups if group.name not in self.groups}
        found = tuple(self.cluster.hosts_of((name,)) for name in known)
        return tuple(hosts for hosts in found if set(hosts) <= set(self.group_hosts))

    @property
    def group_hosts(self) -> tuple[str, ...]:
        """The hosts that end together. With a strategy and without stated groups each group is a job of its own.

        Of tasks that are ranks the platform takes care.
        """
        if self.cluster.task:
            return ()
        if not self.strategy:
            return self.cluster.hosts
        together = _stated_groups(self.job) is not None or group_programs.tf_data_group(self.job.group_programs)
        return self.cluster.hosts if together else self.hosts


class Interpretation(NamedTuple):
    """The request and this host's part in it."""

    request: Request
    context: Context
    launch: Launch
    install: tuple[ProcessSpec, ...] = ()  # what the user's code needs; every host is ready before any starts `launch`
    programs: tuple[tuple[EntryPoint, str], ...] = ()  # of all groups, this host's first, and the setting of each

    def check_programs(self, folder: str) -> None:
        """Raise LaunchError for the entry point of any group that is not in `folder`: no host starts without it."""
        for entry, setting in self.programs:
            entry_point.check(entry, folder, setting)

    def with_decision(self, decision: Decision) -> Interpretation:
        """The same, with one more decision made known."""
        return self._replace(launch=self.launch._replace(decisions=(*self.launch.decisions, decision)))


def read(environ: Mapping[str, str], extra: Sequence[str] = (), root: str = "/") -> Request:
    """Read the config files, the environment and the hardware; `extra` arguments are for the script.

    Raises LaunchError: the first thing that is wrong.
    """
    settings.check(environ)
    paths = Paths.of(environ)
    cluster = discover.discover(environ, paths)
    stated = job_module.read(environ, paths, extra)
    job = _own_job(stated, cluster, environ)
    cluster = tf_data.serving(cluster, job)
    libraries = installed(_venv(environ))
    distributed = bool(strategies.asked(job) or environ.get("DLC_STRATEGY"))
    groups = _groups(job, cluster, distributed)
    # As in the platform's toolkit, a job that is distributed over an empty list of groups is not distributed.
    nowhere = _stated_groups(job) == []
    strategy = None if nowhere else strategies.requested(job, environ, cluster, groups, libraries)
    if strategy and strategy.strategy == "mpi":
        _require_one_program(stated, groups or _groups(job, cluster, distributed=True), environ)
    return Request(
        environ=environ,
        paths=paths,
        cluster=cluster,
        devices=devices_module.detect(environ, root),
        job=job,
        strategy=strategy,
        groups=_distributed_groups(job, cluster, strategy, groups),
        installed=libraries,
    )


def decide(request: Request, folder: str = "") -> Interpretation:
    """This host's processes. `folder` shows the user's code, which is in the code directory unless it says otherwise.

    Raises LaunchError: no or unusable entry point, a strategy that cannot run it.
    """
    folder = folder or request.paths.code
    venv = _venv(request.environ)
    programs = _programs(request, folder, venv)
    entry = programs[0][0]
    job = request.job._replace(program=entry.program)
    env = _environment(request._replace(job=job))
    installs = bool(needed(entry, folder))
    if installs:
        env.update(package_variables(env, venv, request.run_dir))
    variables, keras = keras_variables(entry, folder, request.installed, request.environ)
    env.update(variables)
    context = Context(
        cluster=request.cluster,
        devices=request.devices,
        job=job,
        entry=entry,
        hosts=request.hosts,
        env=env,
        environ=request.environ,
        paths=request.paths,
        venv=venv,
        run_dir=request.run_dir,
        installed=request.installed,
        network=request.network,
        installs=installs,
    )
    _require_compiler(request, context)
    launch = tf_data.with_worker(strategies.plan(context, request.strategy), context)
    hosts = Decision(f"hosts {', '.join(request.cluster.hosts)}", f"from {request.cluster.source}")
    decisions = (
        hosts,
        *_own_program(request),
        *launch.decisions,
        *compiler.decisions(request.compiler),
        *keras,
        *keras_warning(launch.strategy, env, request.installed),
        *left_out(context.env),
        *misspelt(request.environ),
    )
    launch = launch._replace(decisions=decisions)
    return Interpretation(request, context, launch, installation(context, folder), programs)


def _own_job(job: Job, cluster: Cluster, environ: Mapping[str, str]) -> Job:
    """The job with the program of this host's group. Raises LaunchError for programs of groups that are not there."""
    names = [group.name for group in cluster.groups] or [cluster.current_group]
    group_programs.check_names(job.group_programs, names, group_programs.source(environ))
    return job._replace(program=job.group_programs.get(cluster.current_group, job.program))


def _require_one_program(job: Job, groups: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise LaunchError where mpirun, which starts one program, would have to start several."""
    if len({job.group_programs.get(name, job.program) for name in groups}) > 1:
        raise LaunchError(
            CONFIG, "several programs below one mpirun", where=group_programs.source(environ),
            expected="one program for all groups that train together", found=shown(dict(job.group_programs)),
            remedy=f"name the groups that train together in {GROUPS}",
        )  # fmt: skip


def _programs(request: Request, folder: str, venv: str) -> tuple[tuple[EntryPoint, str], ...]:
    """The entry points of all groups, this host's first, each with the setting that names it."""
    job, own = request.job, request.cluster.current_group
    stated = {own: job.program, **job.group_programs}
    found = []
    for group, program in stated.items():
        setting = f"{group_programs.source(request.environ)} ({group})" if group in job.group_programs else ""
        setting = setting or entry_point.SETTING
        found.append((entry_point.resolve(program, folder, request.paths.code, venv, setting), setting))
    return tuple(found)


def _own_program(request: Request) -> list[Decision]:
    group = request.cluster.current_group
    if group not in request.job.group_programs:
        return []
    return [Decision(f"entry point {request.job.program}", f"{group_programs.source(request.environ)} for {group}")]


def _require_compiler(request: Request, context: Context) -> None:
    """Raise LaunchError where the compiler that is asked for cannot work; hosts outside the group run no strategy."""
    asked = request.compiler
    if asked.source and asked.backend != "off":
        here = request.strategy is not None and request.cluster.current_host in request.hosts
        strategy = request.strategy.strategy if here and request.strategy else ""
        compat.load("launch.plan.compiler_refusals").require(context, asked, strategy)


def _compiler_variables(request: Request) -> dict[str, str]:
    if not request.compiler.compiles:
        return {}
    found: dict[str, str] = compat.load("launch.plan.compiler_refusals").variables(
        request.compiler, request.installed, request.devices, request.paths
    )
    return found


def python(environ: Mapping[str, str]) -> str:
    """The interpreter of the user's code, which sees the image's packages."""
    return f"{_venv(environ)}/bin/python"


def _venv(environ: Mapping[str, str]) -> str:
    return stated_folder(environ, "DLC_VENV", DEFAULT_VENV)


def _stated_groups(job: Job) -> object:
    """What the job says of the groups that it is distributed over; None where it says nothing."""
    return job.parameters.get(GROUPS)


def _distributed_groups(
    job: Job, cluster: Cluster, strategy: strategies.Request | None, groups: tuple[str, ...]
) -> tuple[str, ...]:
    """Known now that the strategy is. A Ray cluster holds the whole job where no group is stated."""
    if strategy is None:
        return groups
    if strategy.strategy == "ray" and _stated_groups(job) is None:
        return tuple(group.name for group in cluster.groups) or (cluster.current_group,)
    return _groups(job, cluster, distributed=True)


def _groups(job: Job, cluster: Cluster, distributed: bool) -> tuple[str, ...]:
    """The groups that the job is distributed over: the stated ones, else all.

    On the platform each host's own: without stated groups its toolkit takes each group for a job.
    """
    stated = _stated_groups(job)
    serving = group_programs.tf_data_group(job.group_programs)
    if stated is None:
        own = (cluster.current_group,)
        every = tuple(group.name for group in cluster.groups if group.name != serving) or own
        if serving:  # a service for one other group or for all: these are one job
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
            found=f"{shown(serving)}, whose program is {group_programs.TF_DATA}",
        )  # fmt: skip
    return tuple(stated)


def _environment(request: Request) -> dict[str, str]:
    """The whole environment of a plain process: the user's, our defaults where they have none, and the contract's."""
    environ, job, paths = request.environ, request.job, request.paths
    env = {**_defaults(request), **passed_on(environ), **home_variables(environ, request.run_dir)}
    env["PATH"] = f"{_venv(environ)}/bin:{environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    env["PYTHONPATH"] = ":".join(filter(None, [paths.code, environ.get("PYTHONPATH", ""), process_spec.SITE]))
    env.update(data_service_variables(request.network))
    env.update(tf_data.variables(job))
    env["CURRENT_HOST"] = request.cluster.current_host
    env["SAGEMAKER_JOB_NAME"] = job.text(job_module.JOB_NAME)
    env["SAGEMAKER_REGION"] = _region(request)
    env.update(sm_variables(request.cluster, request.devices, job, request.groups, paths, environ))
    return env


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment without what nobody below may read."""
    return {name: value for name, value in environ.items() if not _is_withheld(name)}


def _is_withheld(name: str) -> bool:
    """Whether a variable is the launchers' secret, or tells of an outer job, or of a launcher's work that is done."""
    return (name.startswith("SM_") and name not in USERS_SM) or name in WITHHELD


def _defaults(request: Request) -> dict[str, str]:
    first = (request.hosts or request.cluster.hosts)[0]
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "MASTER_ADDR": request.environ.get("PET_MASTER_ADDR") or reached_at(first, request.cluster, request.network),
        "MASTER_PORT": request.environ.get("PET_MASTER_PORT")
        or str(settings.port_of(request.environ, settings.MASTER_PORT)),
        **network_variables(request.cluster, request.devices),
        **_compiler_variables(request),
        **framework_variables(request.installed, _region(request)),
        **accelerate_variables(request.devices, request.installed, _uses_xla(request)),
        **(flight_recorder_variables(request.paths, request.run_dir) if request.records_collectives else {}),
    }


def _uses_xla(request: Request) -> bool:
    by_strategy = request.strategy is not None and request.strategy.strategy == "xla"
    return by_strategy or request.compiler.backend == "xla" or "PJRT_DEVICE" in request.environ


def _region(request: Request) -> str:
    return request.job.text("sagemaker_region") or request.environ.get("AWS_REGION", "")
