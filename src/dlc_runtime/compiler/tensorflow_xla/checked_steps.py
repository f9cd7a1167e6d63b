"""Runs a step with XLA and without it, from the same variables and batches, before XLA's result trains anything.

The step without XLA is the one that counts. So a comparison takes a step of the way, and changes nothing else.
"""

from __future__ import annotations

import time

import tensorflow as tf

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.settings import StrictError
from dlc_runtime.compiler.tensorflow_xla import comparison
from dlc_runtime.compiler.tensorflow_xla.comparison import DifferentError, NotComparableError, Pass
from dlc_runtime.compiler.tensorflow_xla.step_state import StepState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    from dlc_runtime.compiler.settings import Settings
    from dlc_runtime.compiler.tensorflow_xla.checks import Checks
    from dlc_runtime.compiler.tensorflow_xla.comparison import Difference
    from dlc_runtime.compiler.tensorflow_xla.compiled_programs import XlaRecord
    from dlc_runtime.compiler.tensorflow_xla.functions import TrainedFunction

    Shapes = tuple[str, ...]
    Tell = Callable[[str], list[str]]

    class Owner(Protocol):
        """Whose steps they are: it is told of a way that cannot be used."""

        settings: Settings
        record: XlaRecord

        def refuse_way(self, trained: TrainedFunction, reason: str, later: str = "") -> None: ...

        def fail_way(self, trained: TrainedFunction, fault: Exception) -> None: ...


DRAWS = "two steps without XLA, from the same variables and batches, differ: it draws random numbers of its own"
# Comparisons in which no variable changed, and no gradient was returned.
MOST_IDLE = 8
IDLE = f"no variable changed in {MOST_IDLE} steps, so its gradients cannot be seen"
# Told between processes, beside reasons.
DOUBTS, FINE = "doubts", ""
UNSEEN = "it takes its batches itself, and their shapes can change"
UNCHECKED = "not compared with eager: {}"
TAKEN = "{}: {} is used although it is {} (DLC_COMPILER_UNCHECKED=1)"
LATER = (
    "{}: {}: {}. It runs without XLA from its step {} on. The last good comparison was at its step {}: the steps "
    "between may have trained with the difference"
)
OTHER_SHAPE = (
    "{}: {}: {}, for batches of a new shape. It runs without XLA from its step {} on; no step before had that shape"
)


class BothWays:
    """One step, run in both ways. `fault` is what XLA raised."""

    def __init__(self, state: StepState, plain: Callable[[], Any], other: Callable[[], Any]) -> None:
        self._state, self._plain, self._other = state, plain, other
        self.places = state.places()
        self.before = state.read()
        self.fault: Exception | None = None
        self.seconds = 0.0
        self.found = self.eager = Pass((), ())

    def run(self) -> Any:
        """Return the result of the step without XLA, which stays."""
        try:
            self.found = self._pass(self._other())
        except StrictError:
            raise
        except Exception as fault:
            self.fault = fault
        finally:
            self._put_back(self.before)
        started = time.perf_counter()
        result = self._plain()
        self.seconds = time.perf_counter() - started
        self.eager = self._pass(result)
        return result

    def _pass(self, result: Any) -> Pass:
        flat = tf.nest.flatten(result, expand_composites=True)
        tensors = [part for part in flat if isinstance(part, tf.Tensor) and part.dtype not in (tf.resource, tf.variant)]
        return Pass([tensor.numpy() for tensor in tensors], self._state.read())

    def _put_back(self, values: Any) -> None:
        self._state.write(values)
        self._state.put_back(self.places)

    def _again(self, values: Any) -> Pass:
        """Run once more without XLA, from other values of the variables."""
        after, places = self._state.read(), self._state.places()
        try:
            self._put_back(values)
            return self._pass(self._plain())
        finally:
            self._state.write(after)
            self._state.put_back(places)

    def judge(self, allowed: float, noise: set[int], tell: Tell | None) -> str:
        """Return what was compared, in words. `noise` takes the numbers of what nothing but rounding changes.

        `tell`: of several processes, which run a step once more together or not at all.
        """
        found = self._differences(self.found)
        doubtful = [at for at, one in enumerate(found) if one.exceeds(allowed) and at not in noise]
        told = tell(DOUBTS if doubtful else "") if tell is not None else [DOUBTS if doubtful else ""]
        if DOUBTS in told:
            doubtful = self._explain(found, doubtful, allowed, noise)
        count = len(self.eager.outputs)
        if doubtful:
            worst = max(doubtful, key=lambda at: found[at].worst)
            name = f"output {worst}" if worst < count else f"what becomes of {self._state.names[worst - count]}"
            raise DifferentError(f"it differs from eager by {found[worst].worst:.2g} in {name}, {allowed:g} is allowed")
        seen = [0.0 if at in noise else one.worst for at, one in enumerate(found)]
        outputs, variables = max(seen[:count], default=0.0), max(seen[count:], default=0.0)
        return f"as eager: outputs within {outputs:.2g}, variables within {variables:.2g} ({allowed:g} is allowed)"

    def _differences(self, other: Pass) -> list[Difference]:
        if len(self.eager.outputs) != len(other.outputs):
            raise DifferentError(f"it returns {len(other.outputs)} tensors, eager {len(self.eager.outputs)}")
        outputs = map(comparison.compare_outputs, self.eager.outputs, other.outputs)
        return [*outputs, *map(comparison.compare_changes, self.before, self.eager.variables, other.variables)]

    def _explain(self, found: list[Difference], doubtful: list[int], allowed: float, noise: set[int]) -> list[int]:
        """Tell a difference from random numbers, and from what rounding does to such a step; return what is left.

        It runs the step as often whatever it finds: other processes do so too.
        """
        repeated, spreads = self._differences(self._again(self.before)), []
        for seed in (1, 2):
            shifted = [comparison.move(value, seed + at) for at, value in enumerate(self.before)]
            moved = self._again(shifted)
            changed = map(comparison.rebase, self.before, shifted, moved.variables)
            spreads.append(self._differences(Pass(moved.outputs, list(changed))))
        if any(one.exceeds(allowed) for one in repeated):
            raise NotComparableError(DRAWS)
        for spread in spreads:
            noise.update(at for at in doubtful if comparison.is_noise(spread[at], allowed))
            doubtful = [at for at in doubtful if not comparison.is_as_noisy(found[at], spread[at], allowed)]
        return doubtful

    def shows_gradients(self) -> bool:
        """Tell whether a trained variable changed, or one of its shape, or whether gradients were returned."""
        shapes = self._state.trained_shapes
        changes = zip(self.before, self.eager.variables)
        return (
            not shapes
            or any(output.shape in shapes for output in self.eager.outputs)
            or any(tuple(old.shape) in shapes and bool((old.numpy() != new.numpy()).any()) for old, new in changes)
        )


class CheckedSteps:
    """Runs the steps of ways of XLA; those that are due in both ways."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._began = time.perf_counter()

    def run(self, trained: TrainedFunction, shapes: Shapes | None, given: Any, plain: Any, other: Any) -> Any:
        """Run a step, `plain` without XLA, `other` with it; in both ways if it is due."""
        if self.is_due(trained, shapes):
            return self.compare(trained, shapes, given, plain, other)
        return other()

    def is_due(self, trained: TrainedFunction, shapes: Shapes | None) -> bool:
        """Count a step of a way. `shapes`: of its batch, None if they are not known."""
        checks = trained.checks_of(trained.way)
        return shapes not in checks.shapes or checks.is_due(time.perf_counter() - self._began)

    def compare(self, trained: TrainedFunction, shapes: Shapes | None, given: Any, plain: Any, other: Any) -> Any:
        checks = trained.checks_of(trained.way)
        is_new = shapes not in checks.shapes
        trained.aside = True
        # Another process may have a shape that was compared: it would not run the step twice.
        waits = is_new and bool(checks.shapes) and trained.tell is not None
        graphs = trained.graphs.living()
        # What it trains is known after its first step.
        if waits or not graphs:
            trained.ran = EAGER
            return plain()
        started = time.perf_counter()
        try:
            both = self._prepare(graphs, shapes, given, plain, other)
        except NotComparableError as fault:
            return other() if self._takes_unchecked(trained, checks, shapes, fault) else plain()
        result = both.run()
        error = self._judge(trained, checks, both)
        # What one process finds counts for all.
        told = trained.tell(" ".join(str(error or FINE).split())) if trained.tell is not None else []
        if error is None and any(told):
            error = DifferentError(f"another process: {max(told)}")
        self._decide(trained, checks, shapes, error)
        checks.add(time.perf_counter() - started, 2 * both.seconds)
        return result

    def _prepare(self, graphs: Any, shapes: Shapes | None, given: Any, plain: Any, other: Any) -> BothWays:
        if shapes is None:
            raise NotComparableError(UNSEEN)
        try:
            return BothWays(StepState(graphs, given), plain, other)
        except NotComparableError:
            raise
        except Exception as fault:
            raise NotComparableError(f"{type(fault).__name__}: {fault}") from fault

    def _judge(self, trained: TrainedFunction, checks: Checks, both: BothWays) -> Exception | None:
        """Return why the way cannot be used."""
        if both.fault is not None:
            return both.fault
        try:
            words = both.judge(comparison.allowed_difference(trained.formats), checks.noise, trained.tell)
            self._note(trained, words)
            checks.idle = 0 if both.shows_gradients() else checks.idle + 1
            return NotComparableError(IDLE) if checks.idle >= MOST_IDLE and not checks.shapes else None
        except (DifferentError, NotComparableError) as error:
            return error
        except Exception as fault:
            return NotComparableError(f"{type(fault).__name__}: {fault}")

    def _decide(self, trained: TrainedFunction, checks: Checks, shapes: Shapes | None, error: Exception | None) -> None:
        step = trained.calls + 1
        if isinstance(error, DifferentError):
            self._refuse(trained, checks, shapes, str(error), step)
        elif isinstance(error, NotComparableError):
            self._takes_unchecked(trained, checks, shapes, error)
        elif error is not None:
            self._owner.fail_way(trained, error)
        elif checks.idle and not checks.shapes:
            trained.ran = EAGER
        else:
            checks.shapes.add(shapes)
            checks.last_good = step

    def _note(self, trained: TrainedFunction, words: str) -> None:
        if trained.turns is not None:
            trained.turns.choosing.candidates[trained.way].compared = words

    def _takes_unchecked(
        self, trained: TrainedFunction, checks: Checks, shapes: Shapes | None, fault: NotComparableError
    ) -> bool:
        """Return whether the job takes a way that nobody could compare; else refuse the way."""
        words = UNCHECKED.format(fault)
        self._note(trained, words)
        if self._owner.settings.unchecked:
            checks.shapes.add(shapes)
            text = TAKEN.format(trained.name, trained.way, words)
            if text not in self._owner.record.notes:
                self._owner.record.notes.append(text)
                log(text)
            return True
        trained.ran = EAGER
        self._owner.refuse_way(trained, f"{words}; DLC_COMPILER_UNCHECKED=1 takes it all the same")
        return False

    def _refuse(self, trained: TrainedFunction, checks: Checks, shapes: Shapes | None, reason: str, step: int) -> None:
        trained.ran = EAGER
        self._note(trained, reason)
        later = ""
        if shapes in checks.shapes:
            later = LATER.format(trained.name, trained.way, reason, step, checks.last_good)
        elif checks.shapes:
            later = OTHER_SHAPE.format(trained.name, trained.way, reason, step)
        self._owner.refuse_way(trained, reason, later)
