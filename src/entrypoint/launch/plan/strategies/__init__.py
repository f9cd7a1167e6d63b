"""One strategy a file, which says in ROW what the other files ask. May import base, discovery, job, and
plan's context, network, compiler_choice and frameworks."""

from __future__ import annotations

from launch.base import compat
from launch.base.compat import NamedTuple
from launch.base.process_spec import Decision, Launch
from launch.discovery.cluster import Cluster
from launch.job.hyperparameters import Job
from launch.plan.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Question(NamedTuple):
    """What the choice of a strategy depends on."""

    job: Job
    environ: Mapping[str, str]
    cluster: Cluster
    # The distributed ones
    groups: tuple[str, ...]
    # Of the image (frameworks)
    installed: frozenset[str]


class Elastic(NamedTuple):
    """How many hosts the job needs, may have, and how often its ranks start again."""

    least: int
    most: int
    restarts: int


class StrategyChoice(NamedTuple):
    """A strategy, and its source: a hyperparameter that is true, a variable, or the platform."""

    source: str
    row: Strategy
    # If another strategy than the one asked for runs
    decisions: tuple[Decision, ...] = ()


def answer_nothing(*_: object) -> Any:
    """Return what counts as no."""


class Strategy(NamedTuple):
    """One way to start a job's processes. The defaults are those of one that starts a rank for each device."""

    # The value of DLC_STRATEGY
    name: str
    # Returns this host's processes; starts nothing
    plan: Callable[[Context], Launch]
    # Hyperparameters, first the one by which dlc asks. If a job sets those of several, the lowest `order` wins
    asked_by: tuple[str, ...] = ()
    order: int = 100
    # More words for it that `dlc run --distributed` takes
    also_called: tuple[str, ...] = ()
    # Returns which sign of the platform asks for it, if the job asks for nothing
    expected_by: Callable[[Question], str] = answer_nothing
    # Returns what runs when it was chosen; None is a plain process
    instead: Callable[[Question, StrategyChoice], StrategyChoice | None] = lambda _, choice: choice
    # Runs if the platform has started a launcher for each rank
    of_tasks: Strategy | None = None
    # Whether its processes speak with those of other hosts
    connects: bool = True
    # Whether each host starts a process for each device
    counts_devices: bool = True
    # One process on the first host is the whole job
    led: bool = False
    # Returns whether the first host's process ends the first host's part, though the other hosts never end
    is_served: Callable[[Mapping[str, str], frozenset[str]], bool] = answer_nothing
    # The first host starts the ranks of the others
    starts_remotely: bool = False
    # Without stated groups it runs on all, and outside of stated ones too
    takes_every_host: bool = False
    # The setting with the port at which ranks meet on the first host
    rendezvous_port: str = ""
    # That of the one port at which each host listens, if there is such a port
    probe_port: str = ""
    # Reads how many hosts may come and go
    read_elastic: Callable[[Mapping[str, str]], Elastic | None] = answer_nothing
    # Roles of the processes that start ranks: their reports name the rank that failed
    starters: tuple[str, ...] = ()
    # DLC_END_GRACE, if the usual seconds do not fit
    end_grace: float | None = None
    # The one compiler that its ranks can use
    compiler: str = ""
    # Whether Keras 3 fails below it
    needs_keras_2: bool = False


def _plan_plain(context: Context) -> Launch:
    command = context.entry.command(context.python, context.job.arguments)
    return Launch("single", (context.process(command, "worker", 0),))


# Runs if nothing else is asked for: the entry point as it is, whatever its type
PLAIN = Strategy("single", _plan_plain, order=0, connects=False, counts_devices=False)


def load_strategies() -> list[Strategy]:
    """Return all rows, in the order in which hyperparameters win."""
    rows = [PLAIN] + [compat.load_module(f"{__name__}.{name}").ROW for name in compat.list_modules(__path__)]
    return sorted(rows, key=lambda row: row.order)


def find_strategy(name: str) -> Strategy:
    """Return the row of this name, that of a plain process if there is no such name."""
    return {row.name: row for row in load_strategies()}.get(name, PLAIN)
