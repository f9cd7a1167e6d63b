"""For tests: children whose gloo threads hardly get a processor for their last work. How they ended is in the metrics.

Each keeps its process group until Python ends, as DistributedDataParallel does after destroy_process_group.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import distributed, nn

CHILDREN = 6


def threads() -> set[int]:
    """The numbers that the system gave this process's threads."""
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def train() -> nn.Module:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    before = threads()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    sys.setswitchinterval(1000)  # Python's lock changes hands only where this thread waits
    for thread in threads() - before:  # gloo's, which get the time that no other thread wants
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    subprocess.Popen(["timeout", "3", "sh", "-c", "while :; do :; done"])  # the processor is never idle
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    distributed.destroy_process_group()
    return model


ends = []
for _ in range(CHILDREN):
    child = os.fork()
    if child == 0:
        model = train()
        break
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    output.mkdir(parents=True, exist_ok=True)
    (output / "metrics-rank0.json").write_text(json.dumps({"rank": 0, "ends": ends}))
