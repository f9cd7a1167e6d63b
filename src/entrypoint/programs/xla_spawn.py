"""Calls `_mp_fn(index)` of a training script, once per XLA device; torchrun starts this once per process.

Usage: xla_spawn.py SCRIPT [ARGUMENT...]
"""

import importlib
import importlib.util
import os
import sys
from types import ModuleType


def load(script: str) -> ModuleType:
    """The script as a module that is not __main__, so that its own start-up code does not run."""
    name = os.path.splitext(os.path.basename(script))[0]
    # As `python SCRIPT` has it: the script's folder first, not ours.
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise SystemExit(f"dlc: {script} is no Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # child processes that unpickle _mp_fn look here
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run `_mp_fn`: in threads of this process on the CPU, where one process owns all devices, else once."""
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    function = load(script)._mp_fn
    if os.environ.get("PJRT_DEVICE") == "CPU":
        multiprocessing = importlib.import_module("torch_xla.distributed.xla_multiprocessing")
        multiprocessing.spawn(function, args=(), start_method="fork")
    else:
        # torchrun made the processes; PJRT takes RANK, LOCAL_RANK and WORLD_SIZE from it.
        function(int(os.environ.get("RANK", "0")))


if __name__ == "__main__":
    main()
