"""A file for each strategy, with its ROW. May import base, discovery, job, and plan's context, network, frameworks."""

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
    """What a choice depends on."""

    job: Job
    environ: Mapping[str, str]
    cluster: Cluster
    # Distributed ones
    groups: tuple[str, ...]
    # In the image
    installed: frozenset[str]


class Elastic(NamedTuple):
    """How many hosts the job needs, may have, and how often its ranks start again."""

    least: int
    most: int
    restarts: int


class StrategyChoice(NamedTuple):
    """A strategy, and its source: a hyperparameter, a variable, or the place."""

    source: str
    row: Strategy
    # If another strategy runs than was asked for
    decisions: tuple[Decision, ...] = ()


def answer_nothing(*_: object) -> Any:
    """Return what counts as no."""


class Strategy(NamedTuple):
    """One way to start a job's processes. A default is that of a rank for each device."""

    # The value of DLC_STRATEGY
    name: str
    # Returns this host's processes
    plan: Callable[[Context], Launch]
    # Hyperparameters NAME_enabled, first that of dlc. Of several rows the lowest `order` wins
    asked_by: tuple[str, ...] = ()
    order: int = 100
    # More words that `dlc run --distributed` takes
    also_called: tuple[str, ...] = ()
    # The place's sign that it expects this, if the job asks for nothing
    expected_by: str = ""
    # Returns what runs in its place; None is a plain process
    instead: Callable[[Question, StrategyChoice], StrategyChoice | None] = lambda _, choice: choice
    # Runs if the place starts a launcher for each rank
    of_tasks: Strategy | None = None
    # Its processes speak with those of other hosts
    connects: bool = True
    # Each host starts a process for each device
    counts_devices: bool = True
    # One process of the first host is the job
    led: bool = False
    # Returns whether the first host ends with its own process, because the others never end
    is_served: Callable[[Mapping[str, str], frozenset[str]], bool] = answer_nothing
    # The first host starts the ranks of the others
    starts_remotely: bool = False
    # Also outside of stated groups
    takes_every_host: bool = False
    # The setting of the port at which ranks meet
    rendezvous_port: str = ""
    # That of the one port at which each host listens
    probe_port: str = ""
    # Reads how many hosts may come and go
    read_elastic: Callable[[Mapping[str, str]], Elastic | None] = answer_nothing
    # Roles of processes that start ranks
    starters: tuple[str, ...] = ()
    # DLC_END_GRACE, if it is unusual
    end_grace: float | None = None
    # The one compiler that its ranks can use
    compiler: str = ""
    # Keras 3 fails below it
    needs_keras_2: bool = False


def _plan_plain(context: Context) -> Launch:
    command = context.entry.command(context.python, context.job.arguments)
    return Launch("single", (context.process(command, "worker", 0),))


# The entry point as it is, whatever its type; runs if nothing is asked for
PLAIN = Strategy("single", _plan_plain, order=0, connects=False, counts_devices=False)


def load_strategies() -> list[Strategy]:
    """Return all rows, in the order in which hyperparameters win."""
    rows = [PLAIN] + [compat.load_module(f"{__name__}.{name}").ROW for name in compat.list_modules(__path__)]
    return sorted(rows, key=lambda row: row.order)


def find_strategy(name: str) -> Strategy:
    """Return the row of this name, PLAIN if there is no such name."""
    return next((row for row in load_strategies() if row.name == name), PLAIN) if name != PLAIN.name else PLAIN
