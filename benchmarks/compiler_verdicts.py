"""Asks whether the compiler's verdict depends on what else the host does: the same trainings again, beside a busy job.

usage: python benchmarks/compiler_verdicts.py [--torch-python FILE] [--runs 10] [--seconds 40] [--json FILE]

Two scripts, a tiny one and one of MNIST's shape, are trained `--runs` times each. Meanwhile a process for each core
works and rests in turns of random length. Each run has no decision of the one before, but its compiled code. Prints
what each run's report says of each candidate, and ends with 1 if two runs are sure of different signs: one that a
candidate is faster than eager, another one that it is slower; or if no run of a script has an interval.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from compiling.runs import SCRIPTS, FailedTrainingError, clean, pythons, run

MODELS = ("tiny", "mnist")
HANGS_AFTER = 600.0  # seconds beyond the training's own
BUSY = """
import random, time
while True:
    end = time.monotonic() + random.uniform(0, 2)
    while time.monotonic() < end:
        sum(range(10000))
    time.sleep(random.uniform(0, 2))
"""


class Said(NamedTuple):
    """What one run's report says of one candidate: between how many times as fast as eager it is."""

    model: str
    number: int
    way: str
    low: float | None
    high: float | None
    words: str

    @property
    def sign(self) -> int:
        """1 if the run is sure that the way is faster than eager, -1 if slower, 0 if it is not sure."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 1) - int(self.high < 1)


def main() -> None:
    arguments = parsed()
    found: list[Said] = []
    with tempfile.TemporaryDirectory(prefix="dlc-verdicts-") as name, busy():
        python = pythons(arguments.torch_python, Path(name) / "python").with_line
        try:
            for number in range(1, arguments.runs + 1):
                for model in MODELS:
                    found += train(python, Path(name), model, number, arguments.seconds)
        except FailedTrainingError as fault:
            sys.exit(f"compiler_verdicts.py: {fault}")
    wrong = changes(found) + silent(found)
    for line in wrong:
        print(line, file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps([each._asdict() | {"sign": each.sign} for each in found], indent=1))
    sys.exit(1 if wrong else 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="FILE", default=sys.executable)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=40.0, help="of a training")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keep the host busy by fits and starts."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def train(python: Path, folder: Path, model: str, number: int, seconds: float) -> list[Said]:
    report = folder / f"{model}-{number}"
    asked = {"DLC_COMPILER": "inductor", "DLC_COMPILER_MODE": "auto", "DLC_COMPILER_REPORT": str(report)}
    asked["DLC_COMPILER_BUDGET"] = "60,5%"  # candidates begin at once
    asked["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "code")  # not DLC_COMPILE_CACHE, which keeps the decision too
    argv = [str(python), str(SCRIPTS / "verdict_training.py"), model, str(seconds)]
    run(argv, clean(asked), f"{model}, run {number}", seconds + HANGS_AFTER)
    said = told(model, number, json.loads((report / "report.json").read_text()))
    if not said:
        print(f"{model}, run {number}: no candidate was compared with eager in {seconds:.0f} s", flush=True)
    for each in said:
        print(f"{model}, run {number}, {each.way}: {each.words}", flush=True)
    return said


def told(model: str, number: int, report: dict[str, Any]) -> list[Said]:
    """Return what a report says of each candidate that it compared with eager."""
    return [
        Said(model, number, each["way"], each["low"], each["high"], f"{each['verdict']}: {each['outcome']}")
        for each in report["ways"]
        if each["against"] == "eager"
    ]


def changes(found: list[Said]) -> list[str]:
    """Return a line for each candidate of which two runs are sure of different signs."""
    lines = []
    for model, way in dict.fromkeys((each.model, each.way) for each in found):
        own = [each for each in found if (each.model, each.way) == (model, way)]
        faster, slower = ([each for each in own if each.sign == sign] for sign in (1, -1))
        if faster and slower:
            lines.append(
                f"{model}, {way}: run {faster[0].number} is sure that it is faster ({faster[0].words}), run "
                f"{slower[0].number} that it is slower ({slower[0].words})"
            )
    return lines


def silent(found: list[Said]) -> list[str]:
    """Return a line for each script of which no run has an interval: too few steps prove nothing."""
    models = {each.model for each in found if each.low is not None}
    return [
        f"{model}: no run could tell how fast a candidate is: give --seconds more"
        for model in MODELS
        if model not in models
    ]


if __name__ == "__main__":
    main()
