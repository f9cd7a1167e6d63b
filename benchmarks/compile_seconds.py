"""Prints what compiling costs: seconds of each model and way, with an empty cache and with that of the job before.

usage: python benchmarks/compile_seconds.py [--torch-python FILE] [--tensorflow-python FILE] [--models bert,gpt]
                                            [--ways default,regional,auto] [--size small|deep|tiny] [--json FILE]

Each row is two trainings of an unchanged script, each a process of its own with an empty temporary folder. `default` is
inductor for the whole model, `auto` what a job pays that chooses by measuring: all candidates that it tries. PyTorch is
compiled regionally only if a model has a block more than three times, so `deep` has six layers; where it has not,
`regional` is `default`. TensorFlow has `default` and `auto`. Goals: regionally at most half the seconds of `default`,
with the cache at most 20 % (PyTorch) and 30 % (TensorFlow) of those without.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from compiling.figures import COLD, WARM, WARM_GOALS, Case
from compiling.runs import FailedTrainingError, Pythons, Runner, lacks, pythons

BACKENDS = {"pytorch": "inductor", "tensorflow": "xla"}
MODELS = ("bert", "gpt", "resnet", "vit")
WAYS = {"pytorch": ("default", "regional", "auto"), "tensorflow": ("default", "auto")}
STEPS = 12  # five of them eager
MANY_STEPS, CHOOSING_SECONDS = 100_000, {COLD: 60.0, WARM: 20.0}
REGIONAL_GOAL = 0.5  # of `default`


class Row(NamedTuple):
    framework: str
    model: str
    way: str
    cold: float  # seconds
    warm: float
    chosen: str  # by a job that chooses
    in_blocks: bool = False  # a block that occurs more than three times was compiled once

    @property
    def percent(self) -> float:
        return 100 * self.warm / self.cold if self.cold else 0.0


def main() -> None:
    arguments = parsed()
    rows: list[Row] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="dlc-compile-seconds-") as name:
        for framework, python in given(arguments).items():
            environments = {framework: pythons(python, Path(name) / framework)}
            for model in arguments.models:
                for way in [each for each in arguments.ways if each in WAYS[framework]]:
                    runner = runner_for(way, Path(name) / "t" / framework / model / way, arguments.size, environments)
                    try:
                        rows.append(measured(runner, Case(framework, BACKENDS[framework], model), way))
                    except FailedTrainingError as fault:
                        failed = True
                        print(fault, file=sys.stderr)
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() | {"percent": row.percent} for row in rows], indent=1))
    sys.exit(int(failed or not rows))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="FILE")
    parser.add_argument("--tensorflow-python", metavar="FILE")
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS, help=f"of {', '.join(MODELS)}")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS["pytorch"])
    parser.add_argument("--size", choices=("tiny", "small", "deep"), default="small")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def given(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the Python of each framework that was asked for, else this one for each that it has."""
    asked = {"pytorch": arguments.torch_python, "tensorflow": arguments.tensorflow_python}
    if any(asked.values()):
        return {framework: python for framework, python in asked.items() if python}
    return {framework: sys.executable for framework in asked if not lacks(sys.executable, framework)}


def runner_for(way: str, folder: Path, size: str, environments: dict[str, Pythons]) -> Runner:
    if way == "auto":
        return Runner(folder, size, MANY_STEPS, environments, CHOOSING_SECONDS, way)
    return Runner(folder, size, STEPS, environments, {}, way)


def measured(runner: Runner, case: Case, way: str) -> Row:
    cache = runner.folder / "cache"
    cold, warm = (runner.train(case, kind, cache) for kind in (COLD, WARM))
    first, again = (float(run.report["compile_seconds"]) for run in (cold, warm))
    # Net.Block.regional is a block of Net, Net.regional all of it.
    in_blocks = way == "regional" and any(graph["function"].count(".") > 1 for graph in cold.report["graphs"])
    row = Row(case.framework, case.model, way, first, again, cold.way if way == "auto" else "", in_blocks)
    print(f"{case.framework} {case.model}, {way}: {row.cold:.1f} s, {row.warm:.1f} s", file=sys.stderr)
    return row


def table(rows: list[Row]) -> str:
    lines = ["| model | way | cold s | of default | warm s | of cold | goal |", "|---" * 7 + "|"]
    whole = {(row.framework, row.model): row.cold for row in rows if row.way == "default"}
    for row in rows:
        share = row.cold / whole[row.framework, row.model] if whole.get((row.framework, row.model)) else None
        goal = WARM_GOALS[row.framework]
        way = f"{row.way} (chose {row.chosen})" if row.chosen else row.way
        lines.append(
            f"| {row.framework} {row.model} | {way} | {row.cold:.1f} | {share_of_default(row, share)} "
            f"| {row.warm:.1f} | {row.percent:.0f}% | at most {goal:.0f}%: {met(row.percent <= goal)} |"
        )
    return "\n".join(lines)


def share_of_default(row: Row, share: float | None) -> str:
    """Return the share, with the goal if blocks were compiled once."""
    if share is None or not row.in_blocks:
        return "-" if share is None else f"{share:.0%}"
    return f"{share:.0%}, at most {REGIONAL_GOAL:.0%}: {met(share <= REGIONAL_GOAL)}"


def met(goal: bool) -> str:
    return "met" if goal else "missed"


if __name__ == "__main__":
    main()
