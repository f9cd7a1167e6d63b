"""Ways that take turns on a GPU whose allocator is the script's own: what each needs, and what the script sees."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import torch

from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.pytorch import turns
from dlc_runtime.compiler.pytorch.agreement import Agreement
from dlc_runtime.compiler.pytorch.beside import Beside
from dlc_runtime.compiler.pytorch.dispatch import Dispatch
from dlc_runtime.compiler.settings import read_settings

GIB = 2**30
SECONDS = {"eager": 0.2, "inductor": 0.1, "cuda-graphs": 0.05}


class Device:
    """Counts bytes as a GPU's allocator does."""

    def __init__(self):
        self.now, self.peak = 10 * GIB, 10 * GIB

    def use(self, peak):
        self.peak = max(self.peak, peak)

    def stats(self, _device=None):
        return {"allocated_bytes.all.current": self.now, "allocated_bytes.all.peak": self.peak}

    def reset(self, _device=None):
        self.peak = self.now


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


def choose(device, needs):
    """Return what is known of each way once one is chosen. When a way compiles it needs 2 GiB more."""
    turns.time = clock = Clock()
    choosing = Choosing(["inductor", "cuda-graphs"], (60.0, 0.05), 3)
    turning = turns.Turns(choosing, Agreement(), 0.0, Beside([], [], read_settings({}), []))
    compiled, step = {"eager"}, 0
    while not turning.decided:
        way, step = Dispatch.way.name, step + 1
        compiling = 0.0 if way in compiled else 1.0
        compiled.add(way)
        device.use((needs[way] + 2 * bool(compiling)) * GIB)
        clock.now += SECONDS[way] + compiling
        turning.step_ended(clock.now, compiling, step)
    ways = choosing.as_json()["candidates"]
    return {
        "memory": {row["way"]: row["memory_bytes"] / GIB for row in ways},
        "outcome": {row["way"]: row["outcome"] for row in ways},
        "log": choosing.news,
    }


device = Device()
for place in (torch.cuda, torch.cuda.memory):
    place.memory_stats, place.reset_peak_memory_stats = device.stats, device.reset
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_properties = lambda _device: SimpleNamespace(total_memory=100 * GIB)
found = {"roomy": choose(device, {"eager": 40, "inductor": 60, "cuda-graphs": 95})}
found["seen"] = [torch.cuda.max_memory_allocated() / GIB]
torch.cuda.reset_peak_memory_stats()
found["seen"].append(torch.cuda.max_memory_allocated() / GIB)
found["tight"] = choose(device, {"eager": 95, "inductor": 94, "cuda-graphs": 95})
(Path(os.environ["RESULTS"]) / "0.json").write_text(json.dumps(found))
