"""The process of one trial: calls the user's function a few times and writes what memory that took."""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module

from dlc_runtime.profile.resources import Framework, Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Run `-m dlc_runtime.scaling.trial_process MODULE:FUNCTION BATCH STEPS LIMIT REPORT`; a LIMIT of 0 is none."""
    function, batch, steps, limit, report = sys.argv[1:]
    # What the process may write to; address space that is only reserved does not count.
    if int(limit):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    module, _, name = function.partition(":")
    step: Any = getattr(import_module(module), name)
    step(int(batch))  # prepares and compiles
    framework = _framework()
    memory, took = Memory(framework), []
    for _ in range(int(steps)):
        began = time.perf_counter()
        step(int(batch))
        framework.settle()
        took.append(time.perf_counter() - began)
    with open(report, "w") as file:
        json.dump({**memory.as_json(), "step_seconds": sorted(took)[len(took) // 2]}, file)


def _framework() -> Framework:
    """Return the framework that the function uses."""
    if "torch" in sys.modules:
        from dlc_runtime.profile.torch_loader import TORCH

        return TORCH
    if "tensorflow" in sys.modules:
        from dlc_runtime.profile.tf_dataset import TENSORFLOW

        return TENSORFLOW
    return Framework()


if __name__ == "__main__":
    main()
