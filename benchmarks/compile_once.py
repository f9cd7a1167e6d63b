"""Prints what compiling costs a job of several ranks, and a job on a fresh host that an artefact of the cache is given.

usage: python benchmarks/compile_once.py [--torch-python FILE] [--model bert] [--size small|deep|tiny]
                                         [--ranks 1,2,4,8] [--rounds 2] [--json FILE]

Each training is a job of its own with an empty temporary folder: five eager steps, then compiled as a whole. The
trainings of a round run one after the other, and rounds repeat them, so that what else the host does meets all alike;
medians. CPU seconds are those of all ranks and their children in all steps, beyond as many eager steps. Goals: 8 ranks
at most 1.3 times the CPU seconds of one; the first job on a fresh host at most 0.12 of the seconds without the file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from compiling.runs import SCRIPTS, Pythons, clean, pythons, run

STEPS, EAGER = 12, 5
MOST_TIMES, MOST_SHARE = 1.3, 0.12
COLD, AGAIN, GIVEN = "an empty cache", "the cache of the job before", "a fresh host, given the artefact"


class Spent(NamedTuple):
    cpu: float  # seconds, of all ranks
    wall: float  # seconds, of the slowest rank


def main() -> None:
    arguments = parsed()
    with tempfile.TemporaryDirectory(prefix="dlc-compile-once-") as name:
        jobs = Jobs(Path(name), arguments, pythons(arguments.torch_python, Path(name) / "python"))
        cold: dict[int, list[Spent]] = {ranks: [] for ranks in arguments.ranks}
        warm: dict[int, list[Spent]] = {ranks: [] for ranks in arguments.ranks}
        hosts: dict[str, list[Spent]] = {kind: [] for kind in (COLD, AGAIN, GIVEN)}
        for _ in range(arguments.rounds):
            for ranks in arguments.ranks:
                cache = jobs.new_folder()
                cold[ranks].append(jobs.train(ranks, {"DLC_COMPILE_CACHE": str(cache)}))
                warm[ranks].append(jobs.train(ranks, {"DLC_COMPILE_CACHE": str(cache)}))
            for kind, spent in jobs.hosts().items():
                hosts[kind].append(spent)
    print(table_of_ranks(cold, warm), table_of_hosts(hosts), sep="\n\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cold": cold, "warm": warm, "hosts": hosts}, indent=1))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="FILE", default=sys.executable)
    parser.add_argument("--model", default="bert")
    parser.add_argument("--size", choices=("tiny", "small", "deep"), default="small")
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


class Jobs:
    """Starts trainings, each in folders of its own."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, environment: Pythons) -> None:
        self._folder, self._arguments, self._python = folder, arguments, environment.with_line
        self._count = 0

    def new_folder(self) -> Path:
        self._count += 1
        found = self._folder / str(self._count)
        found.mkdir()
        return found

    def train(self, ranks: int, more: dict[str, str]) -> Spent:
        out, temporary = self.new_folder(), self.new_folder()
        start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
        asked = ["--model", self._arguments.model, "--size", self._arguments.size, "--steps", str(STEPS)]
        argv = [str(self._python), *start, str(SCRIPTS / "ranks_training.py"), *asked, "--out", str(out)]
        fixed = {"DLC_COMPILER": "inductor", "DLC_COMPILER_MODE": "default", "OMP_NUM_THREADS": "1"}
        fixed |= {"DLC_COMPILER_REPORT": str(out / "report"), "TMPDIR": str(temporary)}
        run(argv, clean({**fixed, **more}), f"{ranks} ranks")
        shutil.rmtree(temporary)
        return spent_in([json.loads((out / f"{rank}.json").read_text()) for rank in range(ranks)])

    def hosts(self) -> dict[str, Spent]:
        """Train without and with what a job before has compiled."""
        cache, file = self.new_folder(), self.new_folder() / "compiled.tar.gz"
        asked = {"DLC_COMPILE_CACHE": str(cache)}
        found = {COLD: self.train(1, asked), AGAIN: self.train(1, asked)}
        pack = [str(self._python), "-m", "dlc_runtime.compiler.cache", str(cache), str(file)]
        done = subprocess.run(pack, check=True, capture_output=True, text=True, env=clean({}))
        name, _, reference = done.stdout.strip().partition("=")
        shutil.rmtree(cache)
        return {**found, GIVEN: self.train(1, {name: reference})}


def spent_in(ranks: list[dict[str, list[float]]]) -> Spent:
    return Spent(sum(beyond_eager(rank["cpu"]) for rank in ranks), max(beyond_eager(rank["wall"]) for rank in ranks))


def beyond_eager(times: list[float]) -> float:
    """Return the seconds of the steps after the eager ones, without those of as many eager steps."""
    steps = [after - before for before, after in itertools.pairwise(times)]
    # The last eager step imports the compiler: that is part of its cost.
    eager = statistics.median(steps[1 : EAGER - 1])
    return sum(steps[EAGER - 1 :]) - eager * len(steps[EAGER - 1 :])


def middle(found: list[Spent]) -> Spent:
    return Spent(statistics.median(each.cpu for each in found), statistics.median(each.wall for each in found))


def table_of_ranks(cold: dict[int, list[Spent]], warm: dict[int, list[Spent]]) -> str:
    lines = ["| ranks | CPU s, empty cache | times one rank's | s until compiled | CPU s of a rank, with the cache |"]
    lines.append("|---" * 5 + "|")
    one = middle(cold[min(cold)]).cpu
    for ranks, found in cold.items():
        spent = middle(found)
        times = spent.cpu / one
        goal = f", at most {MOST_TIMES}: {'met' if times <= MOST_TIMES else 'MISSED'}" if ranks == max(cold) > 1 else ""
        lines.append(
            f"| {ranks} | {spent.cpu:.1f} | {times:.2f}{goal} | {spent.wall:.1f} "
            f"| {middle(warm[ranks]).cpu / ranks:.1f} |"
        )
    return "\n".join(lines)


def table_of_hosts(hosts: dict[str, list[Spent]]) -> str:
    lines = ["| job | s until compiled | of an empty cache | CPU s |", "|---" * 4 + "|"]
    cold = middle(hosts[COLD]).wall
    for kind, found in hosts.items():
        spent = middle(found)
        share = spent.wall / cold
        goal = f", at most {MOST_SHARE}: {'met' if share <= MOST_SHARE else 'MISSED'}" if kind == GIVEN else ""
        lines.append(f"| {kind} | {spent.wall:.1f} | {share:.2f}{goal} | {spent.cpu:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
