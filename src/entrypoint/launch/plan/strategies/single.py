"""One plain process on this host."""

from __future__ import annotations

from launch.base.process_spec import Launch
from launch.plan.context import Context


def plan(context: Context) -> Launch:
    """The entry point as it is, whatever its type."""
    command = context.entry.command(context.python, context.job.arguments)
    return Launch("single", (context.process(command, "worker", 0),))
