"""The choice between strategies."""

from __future__ import annotations

from launch.base.errors import CONFIG, LaunchError, shown
from launch.job.hyperparameters import Job
from launch.plan.strategies import PLAIN, Question, StrategyChoice, load_strategies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def choose_strategy(question: Question) -> StrategyChoice | None:
    """Return the choice that wins, None for a plain job of one process per host.

    Raises LaunchError for a DLC_STRATEGY that does not exist, for what a strategy refuses, and if the place started
    a launcher for every rank and the strategy starts ranks itself.
    """
    choice = _first_choice(question.job, question.environ)
    if question.cluster.task:
        return _each_task_a_rank(choice)
    if choice is None:
        return None if question.environ.get("DLC_STRATEGY") else _of_the_platform(question)
    return choice.row.instead(question, choice)


def _each_task_a_rank(choice: StrategyChoice | None) -> StrategyChoice:
    rows = [choice.row] if choice else load_strategies()
    ranks = next((row.of_tasks for row in rows if row.of_tasks), None)
    if ranks:
        return StrategyChoice("several tasks on a node", ranks)
    raise LaunchError(
        CONFIG,
        f"several launchers on one node, and {rows[0].name} starts the ranks itself",
        where=choice.source if choice else "",
        expected="one task per node",
        found="SLURM_STEP_TASKS_PER_NODE with more",
        remedy="start the container with `srun --ntasks-per-node=1`",
    )


def _of_the_platform(question: Question) -> StrategyChoice | None:
    """Return what a place made for one way of starting ranks expects if the job asks for none."""
    is_trainer = question.environ.get("PET_NNODES") and question.job.program.endswith(".py")
    sign = question.cluster.source if question.cluster.source == "MPIJob" else "PET_NNODES" if is_trainer else ""
    rows = load_strategies() if sign else []
    return next((StrategyChoice(sign, row) for row in rows if row.expected_by == sign), None)


def _first_choice(job: Job, environ: Mapping[str, str]) -> StrategyChoice | None:
    stated = environ.get("DLC_STRATEGY")
    if not stated:
        return next(iter(requested_strategies(job)), None)
    known = {row.name: row for row in load_strategies()}
    if stated not in known:
        raise LaunchError(
            CONFIG, "no such strategy", where="DLC_STRATEGY", expected=f"one of {', '.join(known)}", found=shown(stated)
        )
    return None if known[stated] == PLAIN else StrategyChoice("DLC_STRATEGY", known[stated])


def requested_strategies(job: Job) -> list[StrategyChoice]:
    """Return every choice that the job makes, whether or not it can be met."""
    # A plain job loads no strategy
    rows = load_strategies() if any(name.endswith("_enabled") for name in job.parameters) else []
    return [StrategyChoice(name, row) for row in rows for name in row.asked_by if job.flag(name)]
