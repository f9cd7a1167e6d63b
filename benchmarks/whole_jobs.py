"""Times whole jobs with the compiler against the same jobs without it, with empty caches: does the compiler cost a job?

usage: python benchmarks/whole_jobs.py [--torch-python FILE] [--tensorflow-python FILE] [--models bert,gpt]
                                       [--seconds 40,180] [--rounds 2] [--size small] [--json FILE]

A job is a process, from its start to its end: a training of compiler_models/ with as many steps as an eager training
does in `--seconds`. Jobs with and without the compiler take turns, and each is first as often. Prints for each length
how many times as long the job with the compiler takes (the median of the rounds), what it chose, and the goal: at most
1.05 for 40 s, 1.02 for 180 s, 1.00 for 1,200 s. Ends with 1 if a goal is missed by more than half a percent.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from compiling.figures import Case
from compiling.runs import HANGS, SCRIPTS, FailedTrainingError, Pythons, clean, lacks, pythons, run

BACKENDS = {"pytorch": "inductor", "tensorflow": "xla"}
MODELS = ("bert", "gpt", "resnet", "vit")
# A job of so many seconds may take so many times as long.
GOALS = {40.0: 1.05, 180.0: 1.02, 1200.0: 1.00}
ROUNDING = 0.005
MANY_STEPS = 10_000_000


class Pair(NamedTuple):
    """Seconds of a job without the compiler and with it."""

    off: float
    on: float


class Row(NamedTuple):
    case: str
    seconds: float
    steps: int
    pairs: list[Pair]
    # How the last job with the compiler words its choice.
    words: str

    @property
    def times(self) -> float:
        return median(pair.on / pair.off for pair in self.pairs)

    @property
    def goal(self) -> float:
        """What a job of this length may take: that of the longest one that is no longer."""
        return next((most for length, most in sorted(GOALS.items(), reverse=True) if length <= self.seconds), 1.05)

    @property
    def is_met(self) -> bool:
        return self.times <= self.goal + ROUNDING


class Jobs:
    """Starts the jobs of one case, each with folders of its own."""

    def __init__(self, case: Case, python: Path, size: str, folder: Path) -> None:
        self._case, self._python, self._size, self._folder = case, python, size, folder
        self._count = 0
        self.words = ""

    def run(self, compiler: str, steps: int, seconds: float = float("inf")) -> tuple[float, int]:
        """Return the seconds of the whole job, and how many steps it had."""
        self._count += 1
        out = self._folder / f"{self._case.name.replace(' ', '-')}-{self._count}"
        (out / "temporary").mkdir(parents=True)
        argv = [str(self._python), str(SCRIPTS / f"{self._case.framework}_training.py"), "--model", self._case.model]
        argv += ["--size", self._size, "--steps", str(steps), "--seconds", str(seconds), "--out", str(out / "out.json")]
        asked = {"DLC_COMPILER": compiler, "DLC_COMPILER_REPORT": str(out), "TMPDIR": str(out / "temporary")}
        begun = time.monotonic()
        run(argv, clean(asked), f"{self._case.name}, compiler {compiler}", hangs=HANGS * 3)
        took = time.monotonic() - begun
        if compiler != "off":
            self.words = (json.loads((out / "report.json").read_text())["choosing"] or {}).get("words", "")
        return took, len(json.loads((out / "out.json").read_text())["seconds"])

    def measure(self, seconds: float, rounds: int) -> Row:
        _, steps = self.run("off", MANY_STEPS, seconds)
        pairs = []
        for number in range(rounds):
            kinds = ("off", self._case.backend) if number % 2 == 0 else (self._case.backend, "off")
            took = {kind: self.run(kind, steps)[0] for kind in kinds}
            pairs.append(Pair(took["off"], took[self._case.backend]))
            print(f"{self._case.name}: {pairs[-1].off:.1f} and {pairs[-1].on:.1f} s", file=sys.stderr, flush=True)
        return Row(self._case.name, seconds, steps, pairs, self.words)


def main() -> None:
    arguments = parsed()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="dlc-whole-jobs-") as name:
        for framework, python in given(arguments).items():
            environment = pythons(python, Path(name) / framework)
            for model in arguments.models:
                rows += measured(Case(framework, BACKENDS[framework], model), environment, arguments, Path(name))
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() | {"times": row.times} for row in rows], indent=1))
    sys.exit(0 if rows and all(row.is_met for row in rows) else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="FILE")
    parser.add_argument("--tensorflow-python", metavar="FILE")
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS)
    parser.add_argument("--seconds", type=lambda text: [float(part) for part in text.split(",")], default=[40.0, 180.0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--size", choices=("tiny", "small", "deep"), default="small")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def given(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the Pythons that are asked for; else this one, if it has what the trainings import."""
    asked = {"pytorch": arguments.torch_python, "tensorflow": arguments.tensorflow_python}
    if not any(asked.values()):
        asked = {framework: sys.executable for framework in asked if not lacks(sys.executable, framework)}
    if not asked:
        sys.exit("whole_jobs.py: nothing to measure; name a Python with --torch-python or --tensorflow-python")
    return {framework: python for framework, python in asked.items() if python}


def measured(case: Case, environment: Pythons, arguments: argparse.Namespace, folder: Path) -> list[Row]:
    jobs = Jobs(case, environment.with_line, arguments.size, folder / "jobs")
    try:
        return [jobs.measure(seconds, arguments.rounds) for seconds in arguments.seconds]
    except FailedTrainingError as fault:
        sys.exit(f"whole_jobs.py: {fault}")


def table(rows: list[Row]) -> str:
    lines = ["| job | s | steps | off, s | on, s | times as long | goal | chosen |", "|---" * 8 + "|"]
    for row in rows:
        off, on = median(pair.off for pair in row.pairs), median(pair.on for pair in row.pairs)
        goal = f"{row.goal:.2f}: {'met' if row.is_met else 'MISSED'}"
        lines.append(
            f"| {row.case} | {row.seconds:.0f} | {row.steps} | {off:.1f} | {on:.1f} | {row.times:.3f} | {goal} "
            f"| {row.words.partition(':')[0]} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
