"""The table of strategies, and the choice between them."""

from __future__ import annotations

from launch.base import compat
from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.discovery.cluster import Cluster
from launch.job import instance_groups
from launch.job.hyperparameters import GROUPS, Job
from launch.plan import frameworks
from launch.plan.context import Context
from launch.plan.strategies import single, tf_data_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Module and function(context) -> Launch: pure, this host's processes only.
STRATEGIES = {
    "single": "launch.plan.strategies.single:plan",
    "torchrun": "launch.plan.strategies.torchrun:plan",
    "xla": "launch.plan.strategies.torch_xla:plan",
    "tf_multi_worker": "launch.plan.strategies.tensorflow:plan_multi_worker",
    "tf_parameter_server": "launch.plan.strategies.tensorflow:plan_parameter_servers",
    "mpi": "launch.plan.strategies.mpi:plan",
    "horovod": "launch.plan.strategies.horovod:plan",
    "ray": "launch.plan.strategies.ray:plan",
}

# Only if the platform starts a launcher for each rank
TASK = {"task": "launch.plan.strategies.torchrun:plan"}


class StrategyChoice(NamedTuple):
    """What asks for a strategy: a hyperparameter that is true, or the variable DLC_STRATEGY."""

    source: str
    strategy: str
    # If another strategy than the one asked for runs
    decisions: tuple[Decision, ...] = ()


BELOW_MPI = Decision("Horovod below mpirun", "DLC_HOROVOD_CONTROLLER")
SERVERS = "sagemaker_parameter_server_enabled"
# In order of precedence, which is the platform's own (contract, section 3).
REQUESTS = (
    StrategyChoice(SERVERS, "tf_parameter_server"),
    StrategyChoice("sagemaker_horovod_enabled", "horovod"),
    StrategyChoice("sagemaker_mpi_enabled", "mpi"),
    StrategyChoice("sagemaker_pytorch_ddp_enabled", "torchrun"),
    StrategyChoice("sagemaker_torch_distributed_enabled", "torchrun"),
    StrategyChoice("sagemaker_distributed_dataparallel_enabled", "smdistributed"),
    StrategyChoice("sagemaker_pytorch_xla_multi_worker_enabled", "xla"),
    StrategyChoice("sagemaker_multi_worker_mirrored_strategy_enabled", "tf_multi_worker"),
    # Ours: the platform has none
    StrategyChoice("sagemaker_ray_enabled", "ray"),
)


def choose_strategy(
    job: Job, environ: Mapping[str, str], cluster: Cluster, groups: tuple[str, ...], installed: frozenset[str]
) -> StrategyChoice | None:
    """Return the choice that wins, None for a plain job of one process per host. `installed`: see frameworks.py.

    `groups` are the distributed ones. Raises LaunchError for a DLC_STRATEGY or DLC_HOROVOD_CONTROLLER that does not
    exist, and if the platform started a launcher for every rank and the strategy starts ranks itself.
    """
    request = _first_choice(job, environ)
    if cluster.task:
        return _each_task_a_rank(request)
    if request is None:
        return None if environ.get("DLC_STRATEGY") else _of_the_platform(job, environ, cluster)
    # The platform ignores a parameter server on a single host: there is nobody to share parameters with.
    if request.source == SERVERS and len(cluster.hosts_of(groups)) < 2:
        why = Decision("no parameter server", "there is one host to share parameters")
        return StrategyChoice(request.source, "single", (why,)) if len(cluster.hosts) > 1 else None
    if request.strategy == "smdistributed":
        strategy, decisions = single.substitute_smdistributed(job, job.program, installed)
        return StrategyChoice(request.source, strategy, decisions)
    if request.strategy == "horovod" and _horovod_controller(environ) == "mpi":
        return StrategyChoice(request.source, "mpi", (BELOW_MPI,))
    return request


def _each_task_a_rank(request: StrategyChoice | None) -> StrategyChoice:
    if request is None or request.strategy == "torchrun":
        return StrategyChoice("several tasks on a node", "task")
    raise LaunchError(
        CONFIG,
        f"several launchers on one node, and {request.strategy} starts the ranks itself",
        where=request.source,
        expected="one task per node",
        found="SLURM_STEP_TASKS_PER_NODE with more",
        remedy="start the container with `srun --ntasks-per-node=1`",
    )


def _of_the_platform(job: Job, environ: Mapping[str, str], cluster: Cluster) -> StrategyChoice | None:
    """Return what a platform made for one way of starting ranks expects if the job asks for none."""
    if cluster.source == "MPIJob":
        return StrategyChoice("MPIJob", "mpi")
    if environ.get("PET_NNODES") and job.program.endswith(".py"):
        return StrategyChoice("PET_NNODES", "torchrun")
    return None


def _first_choice(job: Job, environ: Mapping[str, str]) -> StrategyChoice | None:
    stated = environ.get("DLC_STRATEGY")
    if stated:
        if stated not in STRATEGIES:
            raise LaunchError(
                CONFIG,
                "no such strategy",
                where="DLC_STRATEGY",
                expected=f"one of {', '.join(STRATEGIES)}",
                found=shown(stated),
            )
        return None if stated == "single" else StrategyChoice("DLC_STRATEGY", stated)
    return next(iter(requested_strategies(job)), None)


def requested_strategies(job: Job) -> list[StrategyChoice]:
    """Return every choice that the job makes, whether or not it can be met."""
    return [request for request in REQUESTS if job.flag(request.source)]


def _horovod_controller(environ: Mapping[str, str]) -> str:
    controller = environ.get("DLC_HOROVOD_CONTROLLER") or "gloo"
    if controller not in ("gloo", "mpi"):
        raise LaunchError(
            CONFIG, "controller", where="DLC_HOROVOD_CONTROLLER", expected="gloo or mpi", found=shown(controller)
        )
    return controller


def plan_processes(context: Context, request: StrategyChoice | None) -> Launch:
    """Plan this host's part. Hosts outside the distributed group run the entry point as one plain process.

    Ray's cluster has them all: they are where the script on its first host sends work.
    """
    group = context.cluster.current_group
    if group == instance_groups.tf_data_group(context.job.group_programs):
        why = Decision("tf.data.service", f"{instance_groups.setting_name(context.environ)} for {group}")
        return tf_data_service.plan(context).with_decisions(why)
    if request is None:
        found = single.find_warnings(context.cluster, context.job, context.environ)
        why = Decision("one plain process", "no distribution was asked for")
        return single.plan(context).with_decisions(*(found or [why]))
    if context.cluster.current_host not in context.hosts and request.strategy != "ray":
        return single.plan(context).with_decisions(_why_outside(context))
    by_name = request.strategy == "horovod" or BELOW_MPI in request.decisions
    if by_name or (request.strategy == "mpi" and frameworks.imports_horovod(context)):
        frameworks.require_gpus(context)
    launch = _load_strategy(request.strategy)(context)
    why = Decision(f"strategy {request.strategy}", request.source)
    return launch.with_decisions(why, *request.decisions, *_find_apart(context))


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


def _load_strategy(name: str) -> Callable[[Context], Launch]:
    module, _, function = {**STRATEGIES, **TASK}[name].partition(":")
    plan: Callable[[Context], Launch] = getattr(compat.load_module(module), function)
    return plan
