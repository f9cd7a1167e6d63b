"""The ways to turn a job into processes, by name, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.job.parameters import Job
from launch.plan.context import Context
from launch.plan.strategies import smdistributed

# Each module has `plan(context) -> Launch`: pure, this host's processes only.
STRATEGIES = {
    "single": "launch.plan.strategies.single",
    "torchrun": "launch.plan.strategies.torchrun",
    "xla": "launch.plan.strategies.xla",
    "tf_multi_worker": "launch.plan.strategies.tf_multi_worker",
    "tf_parameter_server": "launch.plan.strategies.tf_parameter_server",
    "mpi": "launch.plan.strategies.mpi",
    "horovod": "launch.plan.strategies.horovod",
}


class Strategy(Protocol):
    """The one function that a strategy's module has."""

    def plan(self, context: Context) -> Launch: ...


class Request(NamedTuple):
    """What asks for a strategy: a hyperparameter that is true, or the variable DLC_STRATEGY."""

    source: str
    strategy: str
    decisions: tuple[Decision, ...] = ()  # where another strategy than the one asked for runs


# In order of precedence, which is the platform's own (contract, section 3).
REQUESTS = (
    Request("sagemaker_parameter_server_enabled", "tf_parameter_server"),
    Request("sagemaker_horovod_enabled", "horovod"),
    Request("sagemaker_mpi_enabled", "mpi"),
    Request("sagemaker_pytorch_ddp_enabled", "torchrun"),
    Request("sagemaker_torch_distributed_enabled", "torchrun"),
    Request("sagemaker_distributed_dataparallel_enabled", "smdistributed"),
    Request("sagemaker_pytorch_xla_multi_worker_enabled", "xla"),
    Request("sagemaker_multi_worker_mirrored_strategy_enabled", "tf_multi_worker"),
)


def requested(job: Job, environ: Mapping[str, str], hosts: int, installed: frozenset[str]) -> Request | None:
    """The request that wins, None for a plain job of one process per host. `installed`: see frameworks.py.

    Raises LaunchError for a DLC_STRATEGY or DLC_HOROVOD_CONTROLLER that does not exist.
    """
    request = _first(job, environ, hosts)
    if request is None:
        return None
    if request.strategy == "smdistributed":
        strategy, decisions = smdistributed.substitute(job, job.program, installed)
        return Request(request.source, strategy, decisions)
    if request.strategy == "horovod" and _horovod_controller(environ) == "mpi":
        return Request(request.source, "mpi", (Decision("Horovod below mpirun", "DLC_HOROVOD_CONTROLLER"),))
    return request


def _first(job: Job, environ: Mapping[str, str], hosts: int) -> Request | None:
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
        return None if stated == "single" else Request("DLC_STRATEGY", stated)
    # The platform ignores a parameter server on a single host: there is nobody to share parameters with.
    usable = [request for request in asked(job) if hosts > 1 or request.strategy != "tf_parameter_server"]
    return usable[0] if usable else None


def asked(job: Job) -> list[Request]:
    """Every request that the job makes, whether or not it can be met."""
    return [request for request in REQUESTS if job.flag(request.source)]


def _horovod_controller(environ: Mapping[str, str]) -> str:
    controller = environ.get("DLC_HOROVOD_CONTROLLER", "gloo")
    if controller not in ("gloo", "mpi"):
        raise LaunchError(
            CONFIG, "controller", where="DLC_HOROVOD_CONTROLLER", expected="gloo or mpi", found=shown(controller)
        )
    return controller


def plan(context: Context, request: Request | None) -> Launch:
    """This host's part of the job. Hosts outside the distributed group run the entry point as one plain process."""
    if request is None:
        return _with(_load("single").plan(context), Decision("one plain process", "no distribution was asked for"))
    if context.cluster.current_host not in context.hosts:
        return _with(
            _load("single").plan(context),
            Decision("one plain process", f"the distributed group is {', '.join(context.hosts)}"),
        )
    launch = _load(request.strategy).plan(context)
    return _with(launch, Decision(f"strategy {request.strategy}", request.source), *request.decisions)


def _load(name: str) -> Strategy:
    return cast("Strategy", import_module(STRATEGIES[name]))


def _with(launch: Launch, *decisions: Decision) -> Launch:
    return launch._replace(decisions=(*decisions, *launch.decisions))
