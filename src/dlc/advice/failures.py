"""What failing hosts cost a training job, and how often it should save: checkpoint cadence after Young and Daly. Pure.

Failures of hosts are independent and come at a constant rate, so one of N hosts fails N times as often as one host. A
failure ends the job; it starts again from its last checkpoint, and may fail again while it starts.

J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (2006), doi:10.1016/j.future.2004.11.016, has the interval and the time of a job; J. W. Young, "A first order
approximation to the optimum checkpoint interval", Communications of the ACM 17 (1974), doi:10.1145/361147.361115.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, sqrt

from dlc.advice.cost_model import Machine, Workload
from dlc.advice.decide import compute_need
from dlc.core.errors import UsageError
from dlc.core.text import format_table

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
# A job that trains less than this part of its time is refused: it would last a hundred times as long.
LEAST_USEFUL = 0.01
# Beyond this many times the time between failures, an exponential tells no more, and overflows soon after.
LONGEST_IN_MTBF = 100.0


@dataclass(frozen=True)
class Reliability:
    """How often hosts fail, and what it costs. All times are seconds."""

    hosts: int
    # Mean time between the failures of one host.
    host_mtbf: float
    # For so long a save keeps the training waiting.
    save: float
    # From a failure until the training goes on from its checkpoint.
    restart: float

    @property
    def job_mtbf(self) -> float:
        """Return the mean time between failures of the job."""
        return self.host_mtbf / self.hosts


@dataclass(frozen=True)
class Losses:
    """Shares of the time that a job takes; together with `useful` they are 1."""

    # Seconds of training between two saves.
    interval: float
    useful: float
    # Saves after which the job went on.
    saving: float
    # Work, and saves, that failures undid.
    repeating: float
    restarting: float

    @property
    def lost(self) -> float:
        """Return the share in which nothing is trained that lasts."""
        return 1 - self.useful


def find_first_order_interval(reliability: Reliability) -> float:
    """Return Young's interval, which is right if failures are rare: sqrt(2 save mtbf)."""
    return sqrt(2 * reliability.save * reliability.job_mtbf)


def find_interval(reliability: Reliability) -> float:
    """Return Daly's interval: the seconds of training between two saves with which the least time is lost."""
    save, mtbf = reliability.save, reliability.job_mtbf
    if save >= 2 * mtbf:
        return mtbf
    part = sqrt(save / (2 * mtbf))
    return find_first_order_interval(reliability) * (1 + part / 3 + part * part / 9) - save


def split_time(reliability: Reliability, interval: float) -> Losses:
    """Return where the time goes with saves after so many seconds of training.

    Raises UsageError for a job that would hardly train.
    """
    mtbf, restart = reliability.job_mtbf, reliability.restart
    part = interval + reliability.save
    useful = 0.0
    if (part + restart) / mtbf < LONGEST_IN_MTBF:
        # Daly's time of one interval with its save: mtbf e^(restart/mtbf) (e^(part/mtbf) - 1).
        useful = interval / (mtbf * (expm1(restart / mtbf) + 1) * expm1(part / mtbf))
    if useful < LEAST_USEFUL:
        raise UsageError(
            f"the job would train less than {LEAST_USEFUL:.0%} of its time: {_describe_failures(reliability)}, but a "
            f"save and a restart take {format_time(reliability.save + restart)}",
            "fewer hosts, or hosts that fail less often; a shorter --save-seconds and --restart-seconds, if measured",
        )
    saving = useful * reliability.save / interval
    # Of each failure it is the mean time until the restart is over, or the next failure comes.
    restarting = -expm1(-restart / mtbf)
    return Losses(interval, useful, saving, max(1 - useful - saving - restarting, 0.0), restarting)


def find_losses(reliability: Reliability) -> Losses:
    """Return where the time goes with the best interval. Raises UsageError for a job that would hardly train."""
    return split_time(reliability, find_interval(reliability))


def count_data_hosts(hosts: int, training: Machine, data: Machine, job: Workload) -> tuple[float, int]:
    """Return the data hosts for each of so many training hosts, and for all, so that none waits for data."""
    each = max(compute_need(training, data, job), 0.0)
    return each, ceil(each * hosts - 1e-9)


def write_losses(reliability: Reliability, losses: Losses, price: float | None) -> str:
    """Write the cadence, and a table of what is lost; with a price of all hosts for an hour also in US dollars."""
    young = find_first_order_interval(reliability)
    lines = [
        f"failures: {_describe_failures(reliability)}",
        f"save: after each {format_time(losses.interval)} of training (Daly; Young: {format_time(young)})",
        "",
    ]
    rows = [
        ("saves", losses.saving),
        ("work since the last save, done again", losses.repeating),
        ("restarts", losses.restarting),
        ("all of it", losses.lost),
    ]
    heads = ("lost by", "share", "of a day", *(["USD a day"] if price is not None else []))
    table = [
        (name, f"{share:.2%}", format_time(share * DAY), *([f"{share * price * 24:.2f}"] if price is not None else []))
        for name, share in rows
    ]
    return "\n".join(lines) + "\n" + format_table(heads, table)


def losses_json(reliability: Reliability, losses: Losses, price: float | None) -> dict[str, object]:
    """Return the same for programs: seconds, shares and US dollars, not rounded."""
    return {
        "hosts": reliability.hosts, "host_mtbf_seconds": reliability.host_mtbf,
        "job_mtbf_seconds": reliability.job_mtbf, "save_seconds": reliability.save,
        "restart_seconds": reliability.restart, "interval_seconds": losses.interval,
        "first_order_interval_seconds": find_first_order_interval(reliability), "useful": losses.useful,
        "saving": losses.saving, "repeating": losses.repeating, "restarting": losses.restarting,
        "lost_usd_per_day": None if price is None else losses.lost * price * 24,
    }  # fmt: skip


def _describe_failures(reliability: Reliability) -> str:
    hosts = "the host fails" if reliability.hosts == 1 else f"one of {reliability.hosts} hosts fails"
    return f"{hosts} each {format_time(reliability.job_mtbf)}"


def format_time(seconds: float) -> str:
    """Format a time with two units at most: 4.1 days, 2 h 05 min, 12 min, 45 s, 0.3 s."""
    if seconds >= 3 * DAY:
        return f"{seconds / DAY:.1f} days"
    if seconds >= HOUR - MINUTE / 2:
        hours, minutes = divmod(round(seconds / MINUTE), 60)
        return f"{hours} h {minutes:02} min"
    if seconds >= 10 * MINUTE:
        return f"{seconds / MINUTE:.0f} min"
    if seconds >= MINUTE:
        return f"{seconds / MINUTE:.1f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
