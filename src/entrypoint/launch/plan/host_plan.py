"""What this host starts for a job, with which environment, and why. Starts and writes nothing."""

from __future__ import annotations

from launch.base import compat, process_spec, settings
from launch.base.compat import NamedTuple
from launch.base.process_spec import Decision, Launch, ProcessSpec
from launch.base.settings import JOB_TOKEN, JOB_TOKEN_FILE
from launch.discovery.cluster import DEFAULT_INTERFACE, Cluster
from launch.job import entry_point, instance_groups
from launch.job.entry_point import EntryPoint
from launch.job.hyperparameters import GROUPS, JOB_NAME, SDK3_PROGRAM, Job
from launch.plan import tf_data_service
from launch.plan.compiler_choice import XLA, CompilerChoice
from launch.plan.context import Context
from launch.plan.frameworks import HostFacts
from launch.plan.install import home_variables, package_variables, pip_arguments, pip_processes
from launch.plan.network import address_of, data_service_variables, network_variables
from launch.plan.request import Request, job_venv
from launch.plan.sagemaker_environment import explain_left_out, explain_misspelt, sm_variables
from launch.plan.strategies import PLAIN, StrategyChoice, find_strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


# Hide these from torchrun: the launcher has turned them into flags already.
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


class HostPlan(NamedTuple):
    """The request and this host's part in it."""

    request: Request
    context: Context
    launch: Launch
    # What the user's code needs; every host is ready before any starts `launch`
    install: tuple[ProcessSpec, ...] = ()
    # Of all groups, this host's first, and the setting of each
    programs: tuple[tuple[EntryPoint, str], ...] = ()

    def check_programs(self, folder: str) -> None:
        """Raise LaunchError for the entry point of any group that is not in `folder`: no host starts without it."""
        for entry, setting in self.programs:
            entry_point.check_entry_point(entry, folder, setting)

    def with_decision(self, decision: Decision) -> HostPlan:
        """Return the same plan with one more decision made known."""
        return self._replace(launch=self.launch._replace(decisions=(*self.launch.decisions, decision)))


def make_host_plan(request: Request, folder: str = "") -> HostPlan:
    """Decide this host's processes. `folder` shows the user's code; without it the code directory does.

    Raises LaunchError: no or unusable entry point, a strategy that cannot run it.
    """
    folder = folder or request.paths.code
    venv = job_venv(request.environ)
    given = _explain_request(request)
    programs = _entry_points(request, folder, venv)
    entry = programs[0][0]
    job = request.job._replace(program=entry.program)
    env = _process_environment(request._replace(job=job))
    left_out = explain_left_out(env)
    # The SDK's script has installed what it was asked to
    installs = bool(pip_arguments(entry, folder)) and SDK3_PROGRAM not in request.environ
    if installs:
        env.update(package_variables(env, venv, request.run_dir))
    answers = (row.script_variables(entry, folder, request.installed, request.environ) for row in request.frameworks)
    chosen = [answer for answer in answers if answer]
    for variables, _ in chosen:
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
    launch = tf_data_service.add_worker(_plan_processes(context, request.strategy), context)
    below = find_strategy(launch.strategy)
    warnings = (row.find_warnings(below, env, request.installed) for row in request.frameworks)
    decisions = (
        *given,
        *launch.decisions,
        *_compiler_decisions(request.compiler),
        *(decision for _, decisions in chosen for decision in decisions),
        *(warning for found in warnings for warning in found or ()),
        *left_out,
        *explain_misspelt(request.environ),
    )
    launch = launch._replace(decisions=decisions)
    pip = pip_processes(context, folder) if installs else ()
    return HostPlan(request, context, launch, pip, programs)


def _entry_points(request: Request, folder: str, venv: str) -> tuple[tuple[EntryPoint, str], ...]:
    """Return the entry points of all groups, this host's first, each with the setting that names it."""
    job, own = request.job, request.cluster.current_group
    stated = {own: job.program, **job.group_programs}
    found = []
    for group, program in stated.items():
        setting = f"{instance_groups.setting_name(request.environ)} ({group})" if group in job.group_programs else ""
        setting = setting or entry_point.SETTING
        found.append((entry_point.resolve_entry_point(program, folder, request.paths.code, venv, setting), setting))
    return tuple(found)


def _explain_request(request: Request) -> list[Decision]:
    """Say which hosts, which interface and which program of this host's group the plan is for."""
    cluster, job = request.cluster, request.job
    decisions = [Decision(f"hosts {', '.join(cluster.hosts)}", f"from {cluster.source}")]
    stated = cluster.resource_config.get("network_interface_name") or DEFAULT_INTERFACE
    if cluster.network_interface != stated:
        decisions.append(Decision(f"network interface {cluster.network_interface}", f"this host has no {stated}"))
    if cluster.current_group in job.group_programs:
        why = f"{instance_groups.setting_name(request.environ)} for {cluster.current_group}"
        decisions.append(Decision(f"entry point {job.program}", why))
    return decisions


def _require_compiler(request: Request, context: Context) -> None:
    """Raise LaunchError if the compiler that is asked for cannot work; hosts outside the group run no strategy."""
    asked = request.compiler
    if asked.source and asked.backend != "off":
        here = request.strategy if request.cluster.current_host in request.hosts else None
        compat.load_module("launch.plan.compiler_support").require_supported(context, asked, here)


def _plan_processes(context: Context, choice: StrategyChoice | None) -> Launch:
    """Plan this host's part. Hosts outside the distributed group run the entry point as one plain process."""
    group = context.cluster.current_group
    if group == instance_groups.tf_data_group(context.job.group_programs):
        why = Decision("tf.data.service", f"{instance_groups.setting_name(context.environ)} for {group}")
        return tf_data_service.plan(context).with_decisions(why)
    if choice is None:
        found = find_warnings(context.cluster, context.job, context.environ)
        why = Decision("one plain process", "no distribution was asked for")
        return PLAIN.plan(context).with_decisions(*(found or [why]))
    if context.cluster.current_host not in context.hosts and not choice.row.takes_every_host:
        return PLAIN.plan(context).with_decisions(_why_outside(context))
    decisions = (Decision(f"strategy {choice.row.name}", choice.source), *choice.decisions, *_find_apart(context))
    return choice.row.plan(context).with_decisions(*decisions)


def find_warnings(cluster: Cluster, job: Job, environ: Mapping[str, str]) -> list[Decision]:
    """Warn if several hosts run one script, without a strategy, and nothing connects them.

    TF_CONFIG connects them. Groups that are named although nothing is distributed hint at a request left out.
    """
    if len(cluster.hosts) < 2 or environ.get("DLC_STRATEGY") or environ.get("TF_CONFIG"):
        return []
    stated = job.parameters.get(GROUPS)
    if stated and len(cluster.hosts_of(stated)) == 1:
        # The other groups serve the one host that trains
        return []
    if stated:
        return [Decision("warning: every host trains alone", f"{GROUPS} is given, but no distribution is asked for")]
    if cluster.is_heterogeneous or job.group_programs:
        return []
    remedy = "`dlc run --distributed torchrun|horovod|mpi|tensorflow`, or a hyperparameter of docs/using.md"
    why = f"no distribution was asked for, so each trains a model of its own unless the script connects them; {remedy}"
    return [Decision(f"warning: nothing connects the {len(cluster.hosts)} hosts", why)]


def _find_apart(context: Context) -> list[Decision]:
    """Warn if the instance groups train apart because nothing says which of them are one job."""
    groups = [group.name for group in context.cluster.groups]
    is_apart = set(context.hosts) <= set(context.cluster.hosts_of((context.cluster.current_group,)))
    stated = context.job.parameters.get(GROUPS) is not None or instance_groups.tf_data_group(context.job.group_programs)
    if len(groups) < 2 or stated or not is_apart:
        return []
    why = f"the groups {', '.join(groups)} are a job each; {GROUPS} names the groups that train together"
    return [Decision(f"warning: {context.cluster.current_group} trains a model of its own", why)]


def _why_outside(context: Context) -> Decision:
    """Say why this host runs no strategy. A group that nobody is in is a mistake in resourceconfig.json."""
    if context.hosts:
        return Decision("one plain process", f"the distributed group is {', '.join(context.hosts)}")
    named = context.cluster.current_group
    return Decision(
        "warning: one plain process", f"current_group_name is {named}, and no instance group is called that"
    )


def _compiler_decisions(found: CompilerChoice) -> tuple[Decision, ...]:
    if not found.source:
        return ()
    return (Decision(f"compiler {found.backend}" if found.compiles else "no compiler", found.source),)


def _compiler_variables(request: Request) -> dict[str, str]:
    if not request.compiler.compiles:
        return {}
    found: dict[str, str] = compat.load_module("launch.plan.compiler_support").compiler_variables(
        request.compiler, request.installed, request.devices, request.paths
    )
    return found


def _process_environment(request: Request) -> dict[str, str]:
    """Return the environment of a plain process: the user's, our defaults for what is not set, the contract's."""
    environ, job, paths = request.environ, request.job, request.paths
    env = {**_default_variables(request), **variables_passed_on(environ), **home_variables(environ, request.run_dir)}
    env["PATH"] = f"{job_venv(environ)}/bin:{environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    env["PYTHONPATH"] = ":".join(filter(None, [paths.code, environ.get("PYTHONPATH", ""), process_spec.STARTUP_FOLDER]))
    env["DLC_STEPS_DIR"] = request.steps_folder
    env.update(data_service_variables(request.network))
    env.update(tf_data_service.variables(job))
    env["CURRENT_HOST"] = request.cluster.current_host
    env["SAGEMAKER_JOB_NAME"] = job.text(JOB_NAME)
    env["SAGEMAKER_REGION"] = _job_region(request)
    env.update(sm_variables(request.cluster, request.devices, job, request.groups, paths, environ))
    return env


def variables_passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the launcher's environment without what nobody below may read, or what tells of an outer job.

    In place of SDK 3's driver, what the SDK's script exported is of this job.
    """
    kept = set(environ) if SDK3_PROGRAM in environ else USERS_SM
    return {
        name: value
        for name, value in environ.items()
        if name not in WITHHELD and (name in kept or not name.startswith("SM_"))
    }


def _default_variables(request: Request) -> dict[str, str]:
    first = (request.hosts or request.cluster.hosts)[0]
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **_compiler_variables(request),
        **_framework_variables(request),
        "MASTER_ADDR": request.environ.get("PET_MASTER_ADDR") or address_of(first, request.cluster, request.network),
        "MASTER_PORT": request.environ.get("PET_MASTER_PORT")
        or str(settings.port_of(request.environ, settings.MASTER_PORT)),
        **network_variables(request.cluster, request.devices),
    }


def _framework_variables(request: Request) -> dict[str, str]:
    facts = HostFacts(
        installed=request.installed,
        devices=request.devices,
        paths=request.paths,
        venv=job_venv(request.environ),
        run_dir=request.run_dir,
        region=_job_region(request),
        records_collectives=request.records_collectives,
        uses_xla=_uses_xla(request),
    )
    return {name: value for row in request.frameworks for name, value in (row.variables(facts) or {}).items()}


def _uses_xla(request: Request) -> bool:
    return XLA in (request.row.compiler, request.compiler.backend) or "PJRT_DEVICE" in request.environ


def _job_region(request: Request) -> str:
    return request.job.text("sagemaker_region") or request.environ.get("AWS_REGION", "")
