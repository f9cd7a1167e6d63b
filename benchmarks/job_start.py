"""Times `dlc run` of two hosts until the user's code runs, against `docker run` of the same containers, both at once.

usage: python benchmarks/job_start.py [--image ID] [--runs N]

The plain commands are those of `dlc run --explain`, and find the hosts' folders already there. `dlc run --explain` ends
where an engine would be looked for: its time is dlc's own start.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_root, read_tree
from dlc.core.process import run_program
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine
from dlc.job.job_spec import JobSpec
from dlc.places.local.containers import make_commands
from dlc.places.local.job import make_job
from dlc.places.local.job_folder import write_folders
from dlc.places.local.lifecycle import JobContainers, remove_containers

FIRST_LINE = "import time; print('user code at', time.monotonic_ns(), flush=True)\n"
STAMP = re.compile(r"user code at ([0-9]+)")
HOSTS = 2
BOUND_SECONDS = 120.0


def main() -> None:
    """Interleave the two, print the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="pytorch-2.13-training-cpu-py311")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    ref, _ = selection.find_image(arguments.image, load_variants(read_tree(find_root())))
    engine = connect()
    rows = []
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(FIRST_LINE)
        for number in range(arguments.runs + 1):  # the first warms what both read
            row = (
                plain(engine, ref, script, folder / f"plain-{number}"),
                dlc(engine, ref, script, "--output", str(folder / f"dlc-{number}")),
                dlc(engine, ref, script, "--explain"),
            )
            rows.append(row)
    docker, ours, own = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    print(f"docker run {docker:.2f} s, dlc run {ours:.2f} s, of which dlc's own start {own:.2f} s")
    print(
        f"later than docker run, beside dlc's own start: {ours - own - docker:.2f} s ({arguments.runs} runs, medians)"
    )


def plain(engine: Engine, ref: str, script: Path, folder: Path) -> float:
    """Seconds until the last host's first line, with the plain commands."""
    spec = JobSpec(image=ref, script=str(script), hosts=HOSTS)
    job = make_job(spec.place(f"bench-{time.monotonic_ns():x}", folder, str), {}, "bench")
    write_folders(job)
    hosts = JobContainers(engine, make_commands(job))
    environment = {**os.environ, **engine.environment, **job.secrets}
    try:
        started = time.monotonic()
        hosts.create_network()
        clients = [
            subprocess.Popen(
                ["docker", *hosts.containers[host].words()], stdout=subprocess.PIPE, text=True, env=environment
            )
            for host in job.hosts
        ]
        output = "".join(client.communicate(timeout=BOUND_SECONDS)[0] for client in clients)
    finally:
        remove_containers(engine, job.id)
    return last_stamp(output) - started


def dlc(engine: Engine, ref: str, script: Path, *words: str) -> float:
    """The same with `dlc run`; with `--explain`, which runs nobody's code, the seconds until its end."""
    command = [sys.executable, "-m", "dlc", "run", "--hosts", str(HOSTS), *words, ref, str(script)]
    started = time.monotonic()
    done = run_program(command, cwd=find_root(), env=engine.environment, timeout=BOUND_SECONDS)
    return time.monotonic() - started if "--explain" in words else last_stamp(done.stdout) - started


def last_stamp(output: str) -> float:
    """When the last host's user code began, on this machine's monotonic clock, which containers share."""
    stamps = STAMP.findall(output)
    assert len(stamps) == HOSTS, output
    return max(int(stamp) for stamp in stamps) / 1e9


if __name__ == "__main__":
    main()
