"""Times dlc's own verbs and builds, each against a floor measured in the same run; prints a table and writes JSON.

usage: python benchmarks/build.py [--image ID] [--push] [--cold] [--cuda [ID]] [--json FILE]

`--push` also pushes the image to a registry on this host, against compressing its layers once (`registry_push.py`).

`--cold` also builds the image on a private engine with empty caches, in a temporary folder, and takes the build apart
into its steps: the export must not be the longest one. `--cuda` also builds the layers of a CUDA image (or of ID) from
warm package caches, against an installation of the same locks and one copy of it (`warm_cache.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import warm_cache

ROOT = Path(__file__).resolve().parents[1]
FLOOR = "dlc-bench/floor"
DLC = [sys.executable, "-m", "dlc"]
CUDA_IMAGE = "pytorch-2.15-training-cu132-py313"
CUDA_GOAL = 1.6  # times its floor
PUSH_GOAL = 40.0
# The first run of each command, which does not count, writes Python's bytecode, as on any host.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Row:
    """One figure: median seconds of `runs` runs, its floor's median, and the goal it is held to (seconds)."""

    name: str
    seconds: float
    floor: str
    floor_seconds: float
    goal: float | None
    runs: int

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.seconds / self.floor_seconds


def timed(argv: list[str], cwd: Path = ROOT, **more: str) -> float:
    """Seconds of one whole process; its failure ends the benchmark."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env={**ENVIRONMENT, **more}, check=True, capture_output=True)
    return time.perf_counter() - start


def median(runs: int, argv: list[str], cwd: Path = ROOT, **more: str) -> float:
    """Median of some runs after one that does not count."""
    timed(argv, cwd, **more)
    return statistics.median(timed(argv, cwd, **more) for _ in range(runs))


def docker_host() -> dict[str, str]:
    """DOCKER_HOST of the engine that dlc uses, where it has one of its own."""
    done = subprocess.run([*DLC, "engine", "start", "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    host = json.loads(done.stdout)["host"]
    return {"DOCKER_HOST": host} if host else {}


def plan_row(runs: int) -> Row:
    """`dlc plan` of everything against starting Python with the modules that a plan cannot do without."""
    floor = [sys.executable, "-c", "import pydantic, yaml; from pydantic import BaseModel"]
    return Row(
        "dlc plan (all images)",
        median(runs, [*DLC, "plan"]),
        "python + pydantic + yaml",
        median(runs, floor),
        0.5,
        runs,
    )


def unchanged_row(glob: str, refs: list[str], runs: int, engine: dict[str, str]) -> Row:
    """A build with nothing to do against asking Docker about the same images."""
    floor = median(runs, ["docker", "image", "inspect", *refs], **engine)
    return Row("build, nothing changed", median(runs, [*DLC, "build", glob]), "docker image inspect", floor, 3.0, runs)


def launcher_row(glob: str, ref: str, runs: int, engine: dict[str, str]) -> Row:
    """A build after one changed line of the launcher, against `docker build` of one COPY onto the same image."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        for name in ("buildspec", "docker", "src"):
            shutil.copytree(ROOT / name, copy / name)
        build = [*DLC, "build", glob, "--set", "repository=dlc-bench"]
        timed(build, copy)
        seconds, floors = [], []
        for index in range(runs):
            with (copy / "src/entrypoint/launcher.py").open("a") as launcher:
                launcher.write(f"# change {index} at {time.time_ns()}\n")
            seconds.append(timed(build, copy))
            (copy / "docker/Dockerfile.floor").write_text(f"FROM {ref}\nCOPY src/entrypoint /opt/floor\n")
            argv = ["docker", "buildx", "build", "-q", "-t", FLOOR, "-f", "docker/Dockerfile.floor", "."]
            floors.append(timed(argv, copy, **engine))
            remove([FLOOR], engine)
        remove([ref.replace("dlc/", "dlc-bench/", 1)], engine)
    floor = statistics.median(floors)
    return Row(
        "build, one launcher line changed", statistics.median(seconds), "docker build, one COPY", floor, 3.0, runs
    )


def remove(refs: list[str], engine: dict[str, str]) -> None:
    """Of the engine, with what they name."""
    subprocess.run(
        ["docker", "image", "rm", "-f", *refs], env={**os.environ, **engine}, capture_output=True, check=False
    )


def cold_steps(glob: str) -> list[tuple[float, str]]:
    """Seconds and name of every step over a second of a build from nothing, longest first.

    Two private engines would share a bridge, so the usual one rests meanwhile.
    """
    subprocess.run([*DLC, "engine", "stop"], cwd=ROOT, check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="dlc-") as folder:
        settings = {"DLC_CACHE_DIR": f"{folder}/c", "DLC_ENGINE_DIR": f"{folder}/e"}
        environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT / "src")}
        environment.pop("DOCKER_HOST", None)
        start = time.perf_counter()
        done = subprocess.run(
            [*DLC, "build", glob], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        total = time.perf_counter() - start
        subprocess.run([*DLC, "engine", "stop"], cwd=ROOT, env=environment, check=True, capture_output=True)
    steps = [(float(s), name) for s, name in re.findall(r"^ +([\d.]+) s  (.*)$", done.stderr, re.MULTILINE)]
    return [(total, "all, from an empty cache and no engine"), *sorted((s for s in steps if s[0] >= 1.0), reverse=True)]


def push_row(identifier: str, ref: str, engine: dict[str, str]) -> Row:
    """A push to an empty registry on this host."""
    import registry_push  # needs what tests need, which the other figures do not

    seconds, floor = registry_push.measure(identifier, ref, engine)
    return Row("push to a registry on this host", seconds, "igzip on all cores", floor, PUSH_GOAL, 1)


def warm_row(warm: warm_cache.WarmBuild) -> Row:
    """The layers of an image from a warm package cache; its goal is a multiple of the floor."""
    goal = CUDA_GOAL * warm.floor_seconds
    name = f"build of {warm.image} from a warm package cache"
    return Row(name, warm.seconds, "uv pip install + cp -a", warm.floor_seconds, round(goal, 1), 1)


def host_shape() -> str:
    """Cores, memory and system: what a figure cannot be read without."""
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    return (
        f"{os.cpu_count()} cores, {memory} GB, {platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="pytorch-2.13-training-cpu-py311", help="id of the image to build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--push", action="store_true", help="to a registry on this host")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--cuda", nargs="?", const=CUDA_IMAGE, metavar="ID", help=f"by default {CUDA_IMAGE}")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    engine = docker_host()
    timed([*DLC, "build", args.image])
    ref = f"dlc/{args.image.replace('-', ':', 1)}"
    rows = [
        plan_row(args.runs),
        unchanged_row(args.image, [ref], args.runs, engine),
        launcher_row(args.image, ref, args.runs, engine),
    ]
    rows += [push_row(args.image, ref, engine)] if args.push else []
    steps = cold_steps(args.image) if args.cold else []
    warm = warm_cache.measure(args.cuda) if args.cuda else None
    rows += [warm_row(warm)] if warm else []
    report(rows, steps, warm, args.runs)
    if args.json:
        figures = [asdict(row) | {"ratio": row.ratio} for row in rows]
        value = {"host": host_shape(), "rows": figures, "cold": steps, "warm": asdict(warm) if warm else None}
        args.json.write_text(json.dumps(value, indent=1))


def report(rows: list[Row], cold: list[tuple[float, str]], warm: warm_cache.WarmBuild | None, runs: int) -> None:
    """The tables of docs/measurements.md."""
    print(f"{time.strftime('%Y-%m-%d')}, {host_shape()}; medians of {runs}\n")
    print("| what | seconds | floor | seconds | ratio | goal |\n|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.name} | {row.seconds:.2f} | {row.floor} | {row.floor_seconds:.2f} | {row.ratio:.2f} | {row.goal} |"
        )
    step_table("cold build, step", cold)
    if warm:
        state = "nothing of it in memory" if warm.empty_page_cache else "in memory what was there"
        step_table(f"build from a warm package cache, {state}; step", warm.steps)
        parts = [(warm.install_seconds, "uv pip install"), (warm.copy_seconds, "cp -a")]
        step_table(f"floor, {warm.installed_bytes / 1e9:.2f} GB", parts)


def step_table(title: str, steps: Sequence[tuple[float, str]]) -> None:
    """One line per step, none without steps."""
    if steps:
        print(f"\n| {title} | seconds |\n|---|---|")
    for seconds, name in steps:
        print(f"| {name} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
