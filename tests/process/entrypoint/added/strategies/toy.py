"""A strategy that the launcher does not hold: `toyrun` starts the ranks of a host, and ends if one of them fails."""

from __future__ import annotations

from launch.base.process_spec import Decision, Launch, program_path
from launch.base.settings import MASTER_PORT
from launch.plan.context import Context
from launch.plan.strategies import Strategy, torchrun

TOYRUN = """
import os, subprocess, sys, time
first, size, program, *words = sys.argv[1:]
ranks = [subprocess.Popen([program, *words], env=dict(os.environ, RANK=str(int(first) + n), WORLD_SIZE=size))
         for n in range(int(os.environ["TOY_RANKS"]))]
while any(rank.poll() is None for rank in ranks):
    time.sleep(0.01)
    if any(rank.poll() for rank in ranks):
        sys.exit("toyrun: a rank failed")
"""


def plan(context: Context) -> Launch:
    """Plan one toyrun."""
    each = context.processes_per_host
    rank, size = context.host_rank * each, each * len(context.hosts)
    argv = (context.python, "-c", TOYRUN, str(rank), str(size), program_path("torch_rank"), context.entry.name)
    variables = {"TOY_RANKS": str(each), **torchrun.prefixed_ranks(context, each)}
    return Launch("toy", (context.process(argv, "toyrun", rank, variables),), (Decision("a toy", "to show a row"),))


ROW = Strategy(
    "toy", plan, asked_by=("sagemaker_toy_enabled",), rendezvous_port=MASTER_PORT, starters=("toyrun",), end_grace=5.0
)
