"""Counts and reports what PyTorch/XLA compiles: XLA compiles by itself what runs on its devices. Imports torch.

A script that trains elsewhere is told, since nothing of it is compiled.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler import xla_graphs
from dlc_runtime.compiler.hooks import log, never_raises
from dlc_runtime.compiler.report.step_times import EAGER, StepTimes
from dlc_runtime.compiler.report.writer import Writer
from dlc_runtime.compiler.settings import StrictError
from dlc_runtime.compiler.source_locations import is_user_code
from dlc_runtime.compiler.xla_graphs import PyTorchXlaRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings

METRICS, RUNTIME = "torch_xla.debug.metrics", "torch_xla.runtime"
REMEDY = "move model and data to torch_xla.device(), or set DLC_COMPILER=inductor"


class Session:
    """Counts in hooks around optimizer steps."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.failed = False
        self.reset()

    def reset(self) -> None:
        self.process = os.getpid()
        self.record, self.steps = PyTorchXlaRecord(), StepTimes()
        self.writer = Writer(self.settings, self.record, self.steps, self._facts)
        self.writer.at_end = self._write_metrics
        self._primary: Callable[[], Any] = lambda: None
        self._thread = threading.local()
        self._told = False
        self._devices = 0  # of this process

    def start(self) -> None:
        modules.register_module_forward_pre_hook(self._before_forward)
        optimizers.register_optimizer_step_pre_hook(self._before_step)
        optimizers.register_optimizer_step_post_hook(self._after_step)

    @never_raises
    def _before_forward(self, _module: torch.nn.Module, arguments: Any) -> None:
        """Note the shapes for the first module of each step; XLA does not say which shape was new."""
        if not getattr(self._thread, "shapes", None):
            self._thread.shapes = tuple(tuple(found.shape) for found in arguments if isinstance(found, torch.Tensor))

    @never_raises
    def _before_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
        if device_of(optimizer) == "xla" and xla_graphs.unfuse(optimizer):
            note = xla_graphs.NOTE.format(type(optimizer).__name__)
            if note not in self.record.notes:
                self.record.notes.append(note)
                log(note)

    @never_raises
    def _after_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
        if self.failed or torch.compiler.is_compiling():
            return
        # After a fork the parent's steps are not ours.
        if os.getpid() != self.process:
            self.reset()
        if self._primary() is None:
            self._primary = weakref.ref(optimizer)
        if optimizer is self._primary():
            self._count(device_of(optimizer))
            self._thread.shapes = ()
            self.writer.after_step()

    def _count(self, device: str) -> None:
        if device != "xla":
            self._tick(EAGER)
            self._tell(device)
            return
        source = sys.modules.get(METRICS) or __import__(METRICS, fromlist=["counter_names"])
        self._devices = self._devices or count_devices()
        where = {**find_user_line(), "step": self.steps.count + 1}
        phase, warnings = self.record.after_step(
            xla_graphs.read_metrics(source), getattr(self._thread, "shapes", ()), where
        )
        self._tick(phase)
        for text in warnings:
            log(text)

    def _tick(self, phase: str) -> None:
        self.steps.tick(phase, time.perf_counter())

    def _tell(self, device: str) -> None:
        if self._told:
            return
        self._told = True
        reason = f"it is on {device}, and XLA compiles what runs on its own devices"
        self.record.add_eager("the model", reason, REMEDY)
        text = self.record.warn(f"nothing is compiled: the script trains on {device}. Remedy: {REMEDY}")
        if self.settings.strict:
            self.writer.write()
            raise StrictError(f"DLC_COMPILER_STRICT=1: {text}")
        log(text)

    def _facts(self) -> dict[str, Any]:
        xla = getattr(sys.modules.get("torch_xla"), "__version__", "")
        device = os.environ.get("PJRT_DEVICE", "cpu") if xla else "cpu"
        several = f", {self._devices} devices" if self._devices > 1 else ""
        framework = f"torch {torch.__version__}" + (f", torch_xla {xla}" if xla else "")
        return {"framework": framework, "device": device + several}

    def fail(self, fault: Exception) -> None:
        self.failed = True
        log(self.record.warn(f"nothing more is reported: {type(fault).__name__}: {fault}"))
        self.writer.write()

    def _write_metrics(self, rank: int, _local_rank: int) -> None:
        source = sys.modules.get(METRICS)
        if self.settings.debug and source is not None:
            folder = os.path.join(self.settings.report, "debug")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"metrics-rank-{rank}-{os.getpid()}.txt"), "w", encoding="utf-8") as stream:
                stream.write(source.metrics_report())


def device_of(optimizer: torch.optim.Optimizer) -> str:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    first = next(parameters, None)
    return "cpu" if first is None else str(first.device.type)


def find_user_line() -> dict[str, Any]:
    """Return the innermost running line of the user's: the step ends there."""
    frame = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return {"function": "a step", "file": "", "line": 0}
    return {"function": frame.f_code.co_name, "file": frame.f_code.co_filename, "line": frame.f_lineno}


def count_devices() -> int:
    """Ask only after a step: earlier this would start the runtime, which takes the devices."""
    runtime = sys.modules.get(RUNTIME) or __import__(RUNTIME, fromlist=["addressable_runtime_device_count"])
    return int(runtime.addressable_runtime_device_count())


@functools.cache
def start() -> Session:
    """Return the process's session; begin it at the first call."""
    session = Session(settings_of.read_settings(os.environ))
    session.start()
    return session
