"""The choice between strategies, and this host's part in the one that runs."""

from __future__ import annotations

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.discovery.cluster import Cluster
from launch.job import instance_groups
from launch.job.hyperparameters import GROUPS, Job
from launch.plan import tf_data_service
from launch.plan.context import Context
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


def plan_processes(context: Context, choice: StrategyChoice | None) -> Launch:
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
    launch = choice.row.plan(context)
    why = Decision(f"strategy {choice.row.name}", choice.source)
    return launch.with_decisions(why, *choice.decisions, *_find_apart(context))


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
