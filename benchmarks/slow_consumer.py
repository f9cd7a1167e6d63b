"""Watches the memory of a data host and a training rank that takes more slowly than the data host makes.

usage: python benchmarks/slow_consumer.py [--seconds 600] [--megabytes 1] [--pause 0.05]

Runs with a Python that has torch, numpy and grpcio. One data host with two workers and one training rank on loopback;
the rank pauses after each batch. What the processes hold (PSS, shared pages divided) is read each second and told as
the median of each tenth of the time: in the first one both sides fill up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import dataservice

SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch
from this_service import Ready
from dlc_runtime.dataservice import RemoteLoader, serve
role, port, size, pause = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
if role == "serve":
    serve(Ready(size), batch_size=None, workers=2, address="127.0.0.1", port=port, token="benchmark")
for batch in RemoteLoader([f"127.0.0.1:{port}"], rank=0, world=1, token="benchmark"):
    time.sleep(pause)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of the training after each batch")
    told = parser.parse_args()
    port = dataservice.free_port()
    environ = {**os.environ, "PYTHONPATH": str(dataservice.SOURCES), "OMP_NUM_THREADS": "1"}
    held: dict[str, list[float]] = {"data host": [], "training rank": []}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for role in ("serve", "take"):
            words = [dataservice.PEERS, role, port, int(told.megabytes * 1e6), told.pause]
            command = [sys.executable, "-c", SCRIPT, *map(str, words)]
            processes.append(subprocess.Popen(command, env=environ, start_new_session=True))
        end = time.monotonic() + told.seconds
        while time.monotonic() < end:
            time.sleep(1)
            for found, process in zip(held.values(), processes, strict=True):
                assert process.poll() is None, "it ended"
                found.append(megabytes(process.pid))
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    print(f"{told.seconds:g} s, batches of {told.megabytes:g} MB, one in {told.pause:g} s")
    for name, found in held.items():
        each = max(1, len(found) // 10)
        tenths = [statistics.median(found[at : at + each]) for at in range(0, each * 10, each)]
        print(f"{name}: MB {' '.join(f'{value:.0f}' for value in tenths)}")


def megabytes(session: int) -> float:
    """Memory of a session's processes."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                found = re.search(r"^Pss: +(\d+) kB", (stat.parent / "smaps_rollup").read_text(), re.MULTILINE)
                total += int(found[1]) if found else 0
    return total * 1024 / 1e6


if __name__ == "__main__":
    main()
