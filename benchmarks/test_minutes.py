"""What each test waits for: wall seconds, and the processor seconds of its processes and containers. A pytest plug-in.

    PYTHONPATH=benchmarks DLC_TEST_MINUTES=minutes.jsonl .venv/bin/python -m pytest -p test_minutes ...
    python benchmarks/test_minutes.py minutes.jsonl

The first command writes a line for each test, the second prints a table of the files. What is no processor time is
waiting: for a clock, a network, a disk, or for other tests. Containers of a test are those that have a folder of it
mounted; the steps of image builds are not counted. Needs root, and an engine on this host.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

POLL_SECONDS = 0.5
# Control groups of version 1 count nanoseconds in a file of their own, version 2 has microseconds in a list.
GROUPS = {"/sys/fs/cgroup/cpuacct/docker": "cpuacct.usage", "/sys/fs/cgroup/docker": "cpu.stat"}


class Containers:
    """Processor seconds of the containers that have a folder below `folder` mounted, added up as they run."""

    def __init__(self, folder: Path, engine: Path) -> None:
        self._folder, self._engine = str(folder), engine
        self._mine: dict[str, bool] = {}
        self._seconds: dict[str, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def total(self) -> float:
        return sum(self._seconds.values())

    def _watch(self) -> None:
        while True:
            for place, name in GROUPS.items():
                with suppress(OSError):
                    for entry in os.scandir(place):
                        self._read(entry, name)
            time.sleep(POLL_SECONDS)

    def _read(self, entry: os.DirEntry[str], name: str) -> None:
        with suppress(OSError):  # it has just ended
            if entry.name not in self._mine:
                about = (self._engine / "containers" / entry.name / "hostconfig.json").read_text()
                self._mine[entry.name] = self._folder in about
            if self._mine[entry.name]:
                self._seconds[entry.name] = seconds(Path(entry.path, name).read_text())


def seconds(text: str) -> float:
    """What a control group's file says, in seconds."""
    if text.startswith("usage_usec "):
        return int(text.split()[1]) / 1e6
    return int(text) / 1e9


class Plugin:
    """Writes the line of each test."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._containers: Containers | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        if self._containers is None:
            factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
            self._containers = Containers(factory.getbasetemp(), engine_data())
        wall, own, of_containers = time.monotonic(), sum(os.times()[:4]), self._containers.total()
        result = yield
        line = {
            "test": item.nodeid,
            "wall": round(time.monotonic() - wall, 2),
            "processor": round(sum(os.times()[:4]) - own + self._containers.total() - of_containers, 2),
        }
        with self._out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return result


def engine_data() -> Path:
    """The folder of the private engine, else of Docker's own."""
    private = Path(os.environ.get("DLC_ENGINE_DIR", Path.home() / ".cache/dlc/engine")) / "data"
    return private if private.is_dir() else Path("/var/lib/docker")


def pytest_configure(config: pytest.Config) -> None:
    if out := os.environ.get("DLC_TEST_MINUTES"):
        config.pluginmanager.register(Plugin(Path(out).absolute()))


def main(path: Path) -> None:
    """Print the files of tests as a table, slowest first."""
    files: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for line in map(json.loads, path.read_text().splitlines()):
        entry = files[line["test"].partition("::")[0]]
        entry[0] += 1
        entry[1] += line["wall"]
        entry[2] += line["processor"]
    print("| file | tests | seconds | of them processor | waiting |\n|---|---|---|---|---|")
    for name, (count, wall, processor) in sorted(files.items(), key=lambda item: -item[1][1]):
        print(f"| {name} | {count:.0f} | {wall:.0f} | {processor:.0f} | {max(wall - processor, 0):.0f} |")
    walls, processors = (sum(entry[n] for entry in files.values()) for n in (1, 2))
    print(f"| all | {sum(entry[0] for entry in files.values()):.0f} | {walls:.0f} | {processors:.0f} | |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
