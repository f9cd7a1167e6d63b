"""The ways to turn a job into processes, by name, and the choice between them."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, Protocol, cast

from launch.context import Context
from launch.job import Job
from launch.process_spec import Decision, Launch

# Each module has `plan(context) -> Launch`: pure, this host's processes only.
STRATEGIES = {
    "single": "launch.strategies.single",
    "torchrun": "launch.strategies.torchrun",
    "tf_multi_worker": "launch.strategies.tf_multi_worker",
}


class Strategy(Protocol):
    """The one function that a strategy's module has."""

    def plan(self, context: Context) -> Launch: ...


class Request(NamedTuple):
    """A hyperparameter that asks for a strategy."""

    parameter: str
    strategy: str


# In order of precedence, which is the platform's own (contract, section 3).
REQUESTS = (
    Request("sagemaker_torch_distributed_enabled", "torchrun"),
    Request("sagemaker_multi_worker_mirrored_strategy_enabled", "tf_multi_worker"),
)


def requested(job: Job) -> Request | None:
    """The request that wins, None for a plain job."""
    return next((request for request in REQUESTS if job.flag(request.parameter)), None)


def plan(context: Context, request: Request | None) -> Launch:
    """This host's part of the job. Hosts outside the distributed group run the entry point as one plain process."""
    if request is None:
        return _with(_load("single").plan(context), Decision("one plain process", "no distribution was asked for"))
    if context.cluster.current_host not in context.hosts:
        return _with(
            _load("single").plan(context),
            Decision("one plain process", f"this host is not in the distributed group {', '.join(context.hosts)}"),
        )
    return _with(
        _load(request.strategy).plan(context), Decision(f"strategy {request.strategy}", f"{request.parameter} is true")
    )


def _load(name: str) -> Strategy:
    return cast("Strategy", import_module(STRATEGIES[name]))


def _with(launch: Launch, decision: Decision) -> Launch:
    return launch._replace(decisions=(decision, *launch.decisions))
