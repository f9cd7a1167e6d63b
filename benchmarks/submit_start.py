"""Times `dlc submit --dry-run` of the heterogeneous example for each place; prints medians and the slowest of the runs.

usage: python benchmarks/submit_start.py [--runs N]

Bare Python, started in the same rounds, is what no program of Python comes below.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "examples/heterogeneous/pytorch/job.yml"
OPTIONS = {
    "slurm": ["partition=cpu"],
    "kubernetes": ["queue=training"],
    "sagemaker": ["role=arn:aws:iam::123456789012:role/Training", "region=eu-west-1", "instance_type=ml.c5.xlarge"],
}
IMAGE = "registry.example/dlc/pytorch:2.13-training-cpu-py311"
BOUND_SECONDS = 120.0


def main() -> None:
    """Interleave the places, print a row for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    commands = {"bare Python": [sys.executable, "-c", "pass"], **{place: make_command(place) for place in OPTIONS}}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as folder:
        # The first round warms what all of them read.
        for number in range(runs + 1):
            for name, words in commands.items():
                took = time_command(words, Path(folder))
                if number:
                    seconds[name].append(took)
    print(f"| what, {runs} runs | median | slowest |\n|---|---|---|")
    for name, measured in seconds.items():
        print(f"| {name} | {statistics.median(measured):.3f} s | {max(measured):.3f} s |")


def make_command(place: str) -> list[str]:
    """Return the command of a place."""
    image = ["--image", IMAGE] if place == "kubernetes" else []
    words = [word for option in OPTIONS[place] for word in ("--with", option)]
    return [sys.executable, "-P", "-m", "dlc", "submit", str(JOB), "--to", place, "--dry-run", *image, *words]


def time_command(words: list[str], cache: Path) -> float:
    """Return how long a command took that has ended well."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DLC_CACHE_DIR": str(cache)}
    begin = time.monotonic()
    subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, check=True, timeout=BOUND_SECONDS)
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
