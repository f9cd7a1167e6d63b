"""Calls `_mp_fn(index)` of a training script, once per XLA device; torchrun starts this once per process.

Usage: xla_spawn.py SCRIPT [ARGUMENT...]
"""

import functools
import importlib
import importlib.util
import os
import sys
import threading
from types import ModuleType
from typing import Any, Callable


def load(script: str) -> ModuleType:
    """Load the script as a module that is not __main__, so that its own start-up code does not run."""
    name = os.path.splitext(os.path.basename(script))[0]
    # As `python SCRIPT` has it: the script's folder first, not ours.
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise SystemExit(f"dlc: {script} is no Python script")
    module = importlib.util.module_from_spec(spec)
    # Child processes that unpickle _mp_fn look here
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compile_in_turn() -> None:
    """Let one thread at a time start what is pending on its device, so that all threads get the same program.

    Threads that compile it at the same moment each get their own, whose collectives are numbered differently, and
    wait for each other until torch_xla (2.9, on the CPU) aborts the process.
    """
    runtime = importlib.import_module("torch_xla")._XLAC
    turn = threading.Lock()
    # Devices with a program; before the first one there is nothing that could be waited for
    begun = set()

    def in_turn(start: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(start)
        def started(*args: Any, wait: bool = True, **options: Any) -> None:
            [device] = runtime._xla_real_devices([runtime._xla_get_default_device()])
            # A start waits for the program before it on this device, and that one for devices that have yet to start
            # theirs: whoever waits must not hold the turn.
            if device in begun:
                runtime._xla_wait_device_ops([device])
            with turn:
                start(*args, wait=False, **options)
            begun.add(device)
            if wait:
                runtime._xla_wait_device_ops([device])

        return started

    for name in ("_xla_step_marker", "_xla_sync_multi"):
        setattr(runtime, name, in_turn(getattr(runtime, name)))


_lock = threading.Lock()
# Devices that have one
_tokens: list[str] = []


def on_device(index: int, function: Callable[[int], None]) -> None:
    """Run `_mp_fn` in the thread of its device, once there is room for every device's token.

    torch_xla (2.9) keeps the tokens that order collectives in a map without a lock, which grows with a device's first
    collective: two of these at the same moment end the process with SIGSEGV.
    """
    with _lock:
        if not _tokens:
            _tokens.extend(importlib.import_module("torch_xla.core.xla_model").get_xla_supported_devices())
            for device in _tokens:
                importlib.import_module("torch_xla")._XLAC._set_all_reduce_token(device, None)
    function(index)


def main() -> None:
    """Run `_mp_fn`: in threads of this process on the CPU, if one process owns all devices, else once."""
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    function = load(script)._mp_fn
    if os.environ.get("PJRT_DEVICE") == "CPU":
        compile_in_turn()
        multiprocessing = importlib.import_module("torch_xla.distributed.xla_multiprocessing")
        multiprocessing.spawn(on_device, args=(function,), start_method="fork")
    else:
        # torchrun made the processes; PJRT takes RANK, LOCAL_RANK and WORLD_SIZE from it.
        function(int(os.environ.get("RANK", "0")))


if __name__ == "__main__":
    main()
