"""The report of PyTorch/XLA, from torch_xla's counters; and optimizers without fused steps. Imports no framework."""

from __future__ import annotations

from typing import Any, NamedTuple

from dlc_runtime.compiler.report.record import SHAPE, RecompileCause, Record
from dlc_runtime.compiler.report.step_times import AFTER, WARM_UP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Shapes = tuple[tuple[int, ...], ...]
    from torch.optim import Optimizer

OTHER = "run with DLC_COMPILER_DEBUG=1 and read debug/pt_xla.txt: it has the line of each compilation"
NO_LOWERING = "XLA does not have it: it runs on the CPU, and its tensors travel there and back in every step"

VALUE_READ = "aten::_local_scalar_dense"
WAITS = (
    "the script reads values (.item(), print, a condition on a tensor), and each time the step waits for the device: "
    "do it once in a hundred steps"
)


class PyTorchXlaRecord(Record):
    """A record by XLA's counters. A step's graph is compiled as it runs, after the optimizer's step: in the next."""

    def __init__(self) -> None:
        super().__init__()
        self._metrics = Metrics()
        self._settled = False  # a step compiled nothing
        self._known: list[Shapes] = []
        # Shapes not seen earlier, of the step before and of this step.
        self._new: tuple[Shapes, Shapes] = ((), ())

    def after_step(self, metrics: Metrics, shapes: Shapes, where: dict[str, Any]) -> tuple[str, list[str]]:
        """Return the step's phase, and warnings. `shapes`: of the tensors that the step's first module was given."""
        self._new = (self._new[1], () if shapes in self._known else shapes)
        if self._new[1]:
            self._known.append(shapes)
        before, self._metrics = self._metrics, metrics
        seconds = metrics.seconds - before.seconds
        self.compile_seconds += seconds
        new = [name for name in metrics.fallbacks if name not in before.fallbacks]
        warnings = [text for text in (self._add_operation(name, where) for name in new) if text]
        if metrics.compiled == before.compiled:
            self._settled = self._settled or metrics.compiled > 0
            return (AFTER if self._settled else WARM_UP), warnings
        self.add_graph(str(metrics.compiled), where, seconds, 0)
        if self._settled:
            warnings.append(self.add_recompilation(where, seconds, self._cause()))
        return WARM_UP, [text for text in warnings if text]

    def _cause(self) -> RecompileCause:
        new = self._new[1] or self._new[0]
        before = [shapes for shapes in self._known if shapes != new]
        if not new or not before:
            return RecompileCause("other", "a graph that was not there before; the inputs have shapes that were", OTHER)
        return RecompileCause(
            "shape", f"inputs of shapes {shapes_as_text(new)}, before {shapes_as_text(before[-1])}", SHAPE
        )

    def _add_operation(self, name: str, where: dict[str, Any]) -> str:
        # Each script logs its loss now and then.
        if name == VALUE_READ:
            self.notes.append(WAITS)
            return ""
        return self.add_fallback({**where, "function": name}, "no lowering", NO_LOWERING)

    def cache_counts(self) -> tuple[int, int]:
        """Count within this process: XLA's own cache of graphs."""
        return self._metrics.cached, self._metrics.compiled


def shapes_as_text(shapes: Shapes) -> str:
    return " ".join(str(list(shape)) for shape in shapes)


COMPILED, CACHED, TIME = "UncachedCompile", "CachedCompile", "CompileTime"
FALLBACK = "aten::"
NANOSECONDS = 1e-9


class Metrics(NamedTuple):
    """XLA's counters in this process so far."""

    compiled: int = 0  # graphs
    cached: int = 0  # graphs that were there already
    seconds: float = 0.0  # of compiling
    # Operations that XLA does not have, which run on the CPU.
    fallbacks: tuple[str, ...] = ()


def read_metrics(source: Any) -> Metrics:
    """Read `source`, the module torch_xla.debug.metrics. What it does not have yet reads as nothing."""
    names = list(source.counter_names())
    # How often, nanoseconds in all, the latest ones.
    time = source.metric_data(TIME)
    return Metrics(
        compiled=counter_value(source, COMPILED, names),
        cached=counter_value(source, CACHED, names),
        seconds=float(time[1]) * NANOSECONDS if time else 0.0,
        fallbacks=tuple(sorted(name for name in names if name.startswith(FALLBACK))),
    )


def counter_value(source: Any, name: str, names: list[str]) -> int:
    return int(source.counter_value(name) or 0) if name in names else 0


NOTE = "XLA has no fused {0}: it ran as {0}(fused=False), which computes the same and which XLA fuses by itself"


def unfuse(optimizer: Optimizer) -> bool:
    """Return whether it changed something. Call it in each step: a new group or a checkpoint brings the flag back."""
    found = [group for group in optimizer.param_groups if group.get("fused")]
    for group in found:
        group["fused"] = False
    return bool(found)
