"""One plain process on this host."""

from __future__ import annotations

from launch.base.process_spec import Launch
from launch.plan.context import Context
from launch.plan.strategies import PLAIN, Strategy


def plan(context: Context) -> Launch:
    """Plan the entry point as it is, whatever its type."""
    command = context.entry.command(context.python, context.job.arguments)
    return Launch(PLAIN, (context.process(command, "worker", 0),))


ROW = Strategy(PLAIN, plan, connects=False, counts_devices=False)
