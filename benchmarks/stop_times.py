"""Sends Ctrl-C or SIGTERM to dlc at random moments of its work, and times how long it takes to end; prints a table.

usage: python benchmarks/stop_times.py [--signals N] [--work push,lock,build] [--seed N] [--json FILE]

`push` sends an image and looks at its size, `lock` asks uv, `build` runs a client of BuildKit that takes a while for
its steps. The work is that of tests/process/dlc/test_interrupts.py: with a registry, an index and a docker client of
its own, so no engine is needed. Runs with the Python of the checkout's .venv. Work that was done before its signal
came is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests", "tests/process/dlc")]
from interruptible_work import WORK, Workplace  # noqa: E402 (the tests' own work)

GOAL_SECONDS = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_SECONDS = 300.0


def main() -> int:
    arguments = parsed()
    times: dict[str, list[float]] = {}
    undisturbed: dict[str, float] = {}
    for work in arguments.work.split(","):
        with tempfile.TemporaryDirectory(prefix="bench-stop-") as folder, Workplace(Path(folder)) as place:
            undisturbed[work] = whole(place, work)
            chance = random.Random(arguments.seed)
            found = (stop_time(place, work, chance, undisturbed[work]) for _ in range(arguments.signals))
            times[work] = [seconds for seconds in found if seconds is not None]
    table(times, undisturbed)
    if arguments.json:
        told = {"cpus": os.cpu_count(), "signals": arguments.signals, "undisturbed": undisturbed, "seconds": times}
        arguments.json.write_text(json.dumps(told, indent=1))
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--signals", type=int, default=200, help="of each work")
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for work in arguments.work.split(","):
        if work not in WORK:
            parser.error(f"--work: expected some of {','.join(WORK)}, found {work!r}")
    return arguments


def whole(place: Workplace, work: str) -> float:
    """Seconds that the work takes from its beginning when nobody disturbs it."""
    child = place.begin(work, stderr=subprocess.DEVNULL)
    begun = time.monotonic()
    assert child.wait(HANG_SECONDS) == 0
    return time.monotonic() - begun


def stop_time(place: Workplace, work: str, chance: random.Random, seconds: float) -> float | None:
    """Seconds from a signal to the end of the process; None if that had ended before. Checks that nothing is left."""
    place.registry.kept.clear()
    child = place.begin(work, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0, seconds))
    if child.poll() is not None:
        return None
    sent = time.monotonic()
    child.send_signal(chance.choice(SIGNALS))
    child.wait(HANG_SECONDS)
    ended = time.monotonic() - sent
    assert place.left() == [], f"{work} left {place.left()}"
    return ended


def table(times: dict[str, list[float]], undisturbed: dict[str, float]) -> None:
    print("| work | undisturbed | signals | median | 95 % | longest | goal: 2 s |")
    print("|---|---|---|---|---|---|---|")
    for work, found in times.items():
        if len(found) < 2:
            print(f"| {work} | {undisturbed[work]:.2f} | {len(found)} | too few signals | | | |")
            continue
        late = statistics.quantiles(found, n=20, method="inclusive")[-1]
        verdict = "met" if max(found) <= GOAL_SECONDS else "MISSED"
        print(
            f"| {work} | {undisturbed[work]:.2f} | {len(found)} | {statistics.median(found):.2f} | {late:.2f}"
            f" | {max(found):.2f} | {verdict} |"
        )


if __name__ == "__main__":
    sys.exit(main())
