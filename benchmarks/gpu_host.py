"""Measures a GPU host in minutes, with Python and PyTorch alone: no Docker and no network are needed.

usage: python benchmarks/gpu_host.py [--minutes 8] [--python FILE] [--carried FOLDER] [--rows WORD,...] [--json FILE]
       python benchmarks/gpu_host.py --rehearse
       python benchmarks/gpu_host.py --carry FOLDER --for-python 3.12 [--with NAME==VERSION ...]

A row is a measurement in processes of its own. The first ones matter most: five models eager and as the compiler
runtime chooses, with their losses; a job of Hugging Face's Trainer, compiled and not; a DataLoader and a RemoteLoader
that feed the GPU; tests/gpu; the profile; then the models with CUDA graphs and with plain inductor, then float32. What
does not fit into `--minutes` is left out, and the report says so. `--json` is written after each row; at the end a
page of tables is printed. `--rows model,feed` takes the rows whose names hold one of the words.

What the host lacks is carried along: `--carry` downloads wheels, 64 MiB at most, where there is a network;
`--carried` uses those of them that the host's own Python lacks. `--rehearse` runs each kind of row on a CPU, with tiny
models: whether this works, in a few minutes, most of which compiling takes.

Exit codes: 0; 1 if a row failed or losses differ; 2 for a bad option; 3 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_rows import carry, host, processes, table
from gpu_rows.plan import MINUTES, plan
from gpu_rows.rows import FAILED, Result, result_of

BAD_OPTION, WITHOUT_GPU = 2, 3  # exit codes
ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    arguments, begun = parsed(), time.monotonic()
    try:
        if arguments.carry:
            print(carry.carry(arguments.carry, arguments.for_python, arguments.versions))
            return
        report = measured(arguments, begun)
    except (OSError, ValueError, subprocess.SubprocessError) as fault:  # of what the options name
        print(f"gpu_host.py: {fault}", file=sys.stderr)
        sys.exit(BAD_OPTION)
    sys.exit(1 if report.is_bad() else 0)


def measured(arguments: argparse.Namespace, begun: float) -> Report:
    """Run the rows that fit into the minutes, and print the page."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="dlc-gpu-") as folder:
        here = host.prepare(arguments.python, arguments.carried, Path(folder), arguments.rehearse)
        require_gpu(here)
        report = Report(here.facts, arguments.json)
        end = begun + arguments.minutes * 60
        try:
            for row in plan(here, arguments.minutes, report.results):
                if any(word in row.name for word in arguments.rows):
                    report.add(result_of(row, end - time.monotonic()))
        finally:
            processes.end_descendants()
            print(report.page())
    return report


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="until the last row has ended")
    parser.add_argument("--python", default=sys.executable, help="the one with PyTorch, if not the one that runs this")
    parser.add_argument("--carried", type=Path, metavar="FOLDER", help="wheels that --carry has gathered")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[""], help="words of rows' names")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, with tiny models")
    parser.add_argument("--carry", type=Path, metavar="FOLDER", help="gather wheels instead")
    parser.add_argument("--for-python", default="3.12", help="of the GPU host")
    parser.add_argument("--with", dest="versions", action="append", default=[], metavar="NAME==VERSION")
    arguments = parser.parse_args()
    if arguments.minutes <= 0:
        parser.error(f"--minutes {arguments.minutes:g}: expected a number above 0")
    return arguments


def require_gpu(here: host.Host) -> None:
    if not here.rehearse and not here.facts["gpu"]:
        print(
            f"gpu_host.py: torch {here.facts['torch']} of {here.facts['host_python']} finds no GPU. Run it on a host "
            f"with an NVIDIA GPU and a torch for CUDA, or with --rehearse to see whether it works",
            file=sys.stderr,
        )
        sys.exit(WITHOUT_GPU)


class Report:
    """The rows so far, written after each of them."""

    def __init__(self, facts: dict[str, Any], file: Path | None) -> None:
        self.facts, self.file = facts, file
        self.results: dict[str, Result] = {}

    def add(self, result: Result) -> None:
        self.results[result.name] = result
        line = f"{result.name}: {result.state}, {result.seconds:.0f} s {result.why}"
        print(line.rstrip(), file=sys.stderr, flush=True)
        if self.file:
            written = self.file.with_name(f"{self.file.name}.partial")
            written.write_text(json.dumps(self.as_json(), indent=1, allow_nan=False, default=vars))
            written.replace(self.file)

    def as_json(self) -> dict[str, Any]:
        rows = list(self.results.values())
        beside = table.compared(rows)
        for each in beside:
            del each["losses"]  # they are in the rows
        return {"facts": self.facts, "commit": commit(), "rows": [row.as_json() for row in rows], "compared": beside}

    def page(self) -> str:
        return table.page(self.facts, list(self.results.values()), commit())

    def is_bad(self) -> bool:
        rows = list(self.results.values())
        return any(row.state == FAILED for row in rows) or not all(each["same"] for each in table.compared(rows))


def commit() -> str:
    """Return the checkout's commit, or what a copy without git says."""
    argv = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        asked = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return asked.stdout.strip() or os.environ.get("DLC_COMMIT", "unknown")


if __name__ == "__main__":
    main()
