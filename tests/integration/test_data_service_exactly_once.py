"""The promise itself at size: 200 000 samples, three data hosts, four training ranks, and kills by chance."""

from __future__ import annotations

import json
import random
import time
from itertools import chain
from pathlib import Path

import pytest

from dlc_runtime.dataservice.schedule.assignment import Epoch, Sampling, Share
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
DATA, TRAINING = ("algo-1", "algo-2", "algo-3"), ("algo-4", "algo-5", "algo-6", "algo-7")
SAMPLES, BATCH = 200_000, 20
TAKE = 0.01  # seconds for a batch: so the kills come at different batches
HOLD = SAMPLES // BATCH * 9 // 10 // len(TRAINING)  # batches of a rank, which waits then: all kills come before the end
# The program with all that it started, or one of its processes: a worker, or the one that answers calls.
KILL = """
import os, random, signal, sys, time

def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
        except OSError:
            continue
        if words[0].endswith(b"python") and words[1].endswith(b"/many_ids.py"):
            yield int(pid)

while len(pids := sorted(processes())) < 4:  # after the kill before this one it may have to start again
    time.sleep(0.05)
os.kill(pids[0] if sys.argv[1] == "program" else random.choice(pids[1:]), signal.SIGKILL)
"""


def job(image: Image, folder: Path, seed: int) -> Job:
    parameters = {
        "samples": SAMPLES, "batch-size": BATCH, "seed": seed, "take": TAKE, "hold": HOLD,
        "sagemaker_torch_distributed_enabled": True, "sagemaker_distribution_instance_groups": ["dnn"],
    }  # fmt: skip
    return Job(
        image, folder, SCRIPTS / "many_ids.py", groups={"data": 3, "dnn": 4}, hyperparameters=parameters,
        programs={"data": SCRIPTS / "serve_again.sh"}, environment={"SERVED": "many_ids.py", "DLC_STOP_GRACE": "5"},
    )  # fmt: skip


def taken(running: Job) -> list[Path]:
    """The file of each rank, in order."""
    files = [running.opt_ml(host).glob("output/data/batches-rank*.jsonl") for host in TRAINING]
    return sorted(chain(*files), key=lambda file: file.name)


def count(running: Job) -> int:
    return sum(file.read_bytes().count(b"\n") for file in taken(running))


def wait_until_taken(running: Job, batches: int) -> None:
    deadline = time.monotonic() + 240
    while count(running) < batches:
        assert time.monotonic() < deadline
        assert running.is_running(TRAINING[0])
        time.sleep(0.1)


@pytest.mark.parametrize("seed", range(5))
def test_of_200000_samples_none_is_missing_or_doubled_and_the_order_holds_while_data_hosts_are_killed(
    image: Image, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    total, kills = SAMPLES // BATCH, []
    with job(image, tmp_path, seed) as running:
        for at in sorted(chance.randrange(total // 20, total * 8 // 10) for _ in range(chance.randint(6, 12))):
            wait_until_taken(running, at)
            what = chance.choice(["program", "process"])
            running.ask(chance.choice(DATA), "python", "-c", KILL, what)
            kills.append(what)
        running.let_go_on(*TRAINING)
        assert set(running.wait().values()) == {0}
        again = sum(running.log(host).count("the data program was killed and starts again") for host in DATA)
        assert again == kills.count("program")
        found = [[json.loads(line) for line in file.read_text().splitlines()] for file in taken(running)]
        epoch = Epoch(Sampling(SAMPLES, BATCH, shuffle=True, seed=seed), 0)
        for rank, batches in enumerate(found):
            assert batches == [epoch.indices(id_) for id_ in Share(rank, len(TRAINING)).ids(total)]
        assert sorted(chain(*chain(*found))) == list(range(SAMPLES))
