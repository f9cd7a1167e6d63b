"""The session of one process: measures the first steps as the script has them, then chooses a way, and reports.

A step is a call of the tf.function, or of Keras's train function, in which a tape was asked for gradients. Each of
these functions has its ways, which take turns until it is known which one is the fastest.
"""

from __future__ import annotations

import functools
import os
import time
import weakref

import tensorflow as tf

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.cache import cache_folder
from dlc_runtime.compiler.choosing.candidates import EAGER as WITHOUT_XLA
from dlc_runtime.compiler.hooks import log, never_raises
from dlc_runtime.compiler.report.record import SHAPE, RecompileCause
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.writer import Writer
from dlc_runtime.compiler.settings import StrictError
from dlc_runtime.compiler.tensorflow_xla import functions, tf_internals
from dlc_runtime.compiler.tensorflow_xla.batch_shapes import MetShapes, read_arguments, watch_batches
from dlc_runtime.compiler.tensorflow_xla.checked_steps import CheckedSteps
from dlc_runtime.compiler.tensorflow_xla.choices import Choices
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import Program, Programs, XlaRecord, short_reason
from dlc_runtime.compiler.tensorflow_xla.functions import BASELINE, COMPILED, LEFT, OWN, TrainedFunction
from dlc_runtime.compiler.tensorflow_xla.preparation import prepared
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, TOO_OFTEN, WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings
    from dlc_runtime.compiler.tensorflow_xla.functions import Leaf

# After so many steps of another function, that function's steps are counted.
STALE = 20
MOST_DUMPED = 1 << 28  # bytes of debug mode's files
OWN_REASON = "the script compiles it itself"
GRAPHS = (
    "compiling the graphs of each Session with xla (auto-clustering), from the first step on: of scripts of "
    "TensorFlow 1 the report has no steps"
)
GRAPHS_WITHOUT = (
    "the graphs of a tf.Session run without XLA, because ways of one Session cannot take turns to be measured; "
    "DLC_COMPILER_MODE=default compiles them in clusters"
)
NO_FUNCTION = "its step runs without tf.function, so there is no graph to compile"
# Times that XLA compiles a function again.
MOST_AGAIN = 8
STATES_NO_XLA = "the script says jit_compile=False"
ASSERTS = "{}: jit_compile is not tried, because XLA would leave out the assertion at {}; clusters are tried"


class Session:
    """Stands around each call of a function that trains."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tracing = tf_internals.Tracing()
        self.failed = False
        self.reset()

    def reset(self) -> None:
        self.process = os.getpid()
        # What is being called; what it calls is a part of it.
        self.current: TrainedFunction | None = None
        # Shapes of what it took from data sets itself.
        self.batches: list[tuple[str, ...]] = []
        self.record, self.steps = XlaRecord(), StepTimes()
        self.record.cache = prepared.cache
        self.writer = Writer(self.settings, self.record, self.steps, tf_internals.facts)
        folder = prepared.cache.get("folder", "")
        self.choices = Choices(self.settings, self.record, folder, self.writer.write)
        self.checked = CheckedSteps(self)
        self.programs = Programs(prepared.programs, prepared.private)
        self._functions: weakref.WeakKeyDictionary[Any, TrainedFunction] = weakref.WeakKeyDictionary()
        self._lines: dict[tuple[str, int], TrainedFunction] = {}  # of steps without a tf.function
        self._primary: TrainedFunction | None = None  # its steps are counted
        self._others = 0
        self.clustering = tf_internals.Clustering()

    def start(self) -> None:
        if not self.tracing.listen():
            self.record.notes.append("this TensorFlow does not tell how long tracing takes: it counts as compiling")
        if not prepared.programs:
            self.record.notes.append("what XLA compiles cannot be seen here: the report has traces and new shapes")
        noted = None if prepared.programs else (lambda shapes: self.batches.append(shapes))
        watch_batches(lambda: self.current, noted)
        tf_internals.wrap_sessions(self.note_session, clustering=self.settings.mode != settings_of.AUTO)
        tf_internals.wrap_gradient(self.note_gradient)
        tf_internals.wrap_call(self.call_function)

    @never_raises
    def _switch_clustering(self, wanted: bool) -> None:
        self.clustering.switch(wanted)

    # -- calls ----------------------------------------------------------------------------------------------------

    def call_function(self, function: Any, call: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.failed or self.current is not None or not tf.executing_eagerly():
            return call(function, *arguments, **named)
        self._after_a_fork()
        self._meet(function)
        trained = self._functions.get(function)
        if trained is None:
            return call(function, *arguments, **named)
        return self.run(
            trained,
            lambda: self._call_checked(trained, lambda: call(function, *arguments, **named), (arguments, named)),
            lambda: functions.read_signature(function.python_function, arguments, named),
            (arguments, named),
        )

    def run(
        self, trained: TrainedFunction, call: Callable[[], Any], signature: Callable[[], dict[str, Leaf]], given: Any
    ) -> Any:
        if trained.phase != OWN:
            self._switch_clustering(trained.way == CLUSTERS)
        trained.ran, trained.aside = trained.way, False
        traced, started = self.tracing.seconds, time.perf_counter()
        self.tracing.random, self.current, self.batches = set(), trained, []
        self.tracing.assertion, self.tracing.graphs, self.tracing.formats = "", [], trained.formats
        try:
            with tf_internals.without_our_frames():
                result = call()
            if trained.turns is not None:
                tf_internals.wait_for_devices()
        finally:
            self.current = None
        self._after(
            trained, trained.ran, time.perf_counter() - started, self.tracing.seconds - traced, signature, given
        )
        return result

    def _call_checked(self, trained: TrainedFunction, call: Callable[[], Any], given: Any) -> Any:
        if trained.way == WITHOUT_XLA or not trained.training:
            return call()
        shapes = None if trained.takes_unseen else read_arguments(given)
        return self.checked.run(trained, shapes, given, lambda: self.clustering.without(call), call)

    @never_raises
    def note_gradient(self) -> None:
        """Note that a tape is asked for gradients: what is being called trains."""
        if self.failed:
            return
        if self.current is not None:
            self.current.training = True
            if tf.executing_eagerly() and self.current.phase == BASELINE:
                self.leave(self.current, "it runs eagerly (run_functions_eagerly)", "remove that line")
        elif tf.executing_eagerly():
            self._step_without_function()

    def note_session(self) -> None:
        note = GRAPHS_WITHOUT if self.settings.mode == settings_of.AUTO else GRAPHS
        if note not in self.record.notes:
            self.record.notes.append(note)
            log(note)

    @never_raises
    def _meet(self, function: Any) -> None:
        if function not in self._functions:
            trained = self._functions[function] = functions.describe_function(function)
            stated = tf_internals.read_jit_compile(function)
            if stated:
                self.own(trained)
            elif stated is not None:
                trained.states_no_xla = True
                trained.begin(LEFT)

    def fail(self, fault: Exception) -> None:
        """Stop after a fault of ours: what is compiled stays so, and nothing more is done."""
        self.failed = True
        self._log_or_fail(self.record.warn(f"nothing more is compiled or reported: {type(fault).__name__}: {fault}"))
        self.writer.write()

    def _after_a_fork(self) -> None:
        if os.getpid() != self.process:
            self.reset()

    # -- what a call has done -------------------------------------------------------------------------------------

    @never_raises
    def _after(
        self,
        trained: TrainedFunction,
        way: str,
        seconds: float,
        traced: float,
        signature: Callable[[], dict[str, Leaf]],
        given: Any,
    ) -> None:
        programs = self.programs.new()
        trained.random |= self.tracing.random
        trained.graphs.add_all(self.tracing.graphs)
        self._keep_assertion(trained)
        compiled = trained.phase == OWN or (way != WITHOUT_XLA and not trained.refused)
        cause = self._cause_of_tracing(trained, signature) if traced else None
        if trained.turns is not None and not compiled:
            # The other way has told it, or will.
            cause = None
        shape = self._new_shape(trained, way, given) if compiled and trained.training else None
        changed = bool(programs) or shape is not None
        self.tracing.changes += changed or (compiled and not trained.compiled_calls)
        if trained.training or programs:
            self._add_programs(trained, compiled, programs, shape, cause, max(0.0, seconds - traced - self._usual()))
        if trained.training:
            self._step(trained, compiled, seconds, changed or bool(traced))

    def _keep_assertion(self, trained: TrainedFunction) -> None:
        """Leave a way out under which an assertion of the script would never fail."""
        if self.tracing.assertion and trained.phase == BASELINE and WHOLE in trained.ways:
            trained.ways = (CLUSTERS,)
            text = ASSERTS.format(trained.name, self.tracing.assertion)
            if text not in self.record.notes:
                self.record.notes.append(text)
                log(text)

    def _usual(self) -> float:
        return self.steps.phases[EAGER].median or 0.0

    def _cause_of_tracing(
        self, trained: TrainedFunction, signature: Callable[[], dict[str, Leaf]]
    ) -> RecompileCause | None:
        old, trained.signature = trained.signature, signature()
        expected, trained.expects_trace = trained.expects_trace, False
        return None if expected else functions.cause_of_tracing(old, trained.signature)

    def _new_shape(self, trained: TrainedFunction, way: str, given: Any) -> str | None:
        met: MetShapes = trained.met.setdefault(way, MetShapes(way == CLUSTERS))
        return None if prepared.programs else met.add_call(given, self.batches)

    def _add_programs(
        self,
        trained: TrainedFunction,
        compiled: bool,
        programs: list[Program],
        shape: str | None,
        cause: RecompileCause | None,
        seconds: float,
    ) -> None:
        where = self._where(trained)
        first = compiled and not trained.compiled_calls
        again = trained.compiled_again(programs) or shape
        if programs or first or shape is not None:
            self.record.compile_seconds += seconds
            self.record.add_programs(where, seconds, programs, first or shape is not None, bool(prepared.programs))
        if again and (cause is None or cause.kind == "other"):
            cause = RecompileCause("shape" if " is " in again else "other", again, SHAPE)
        if cause is not None:
            warning = self.record.add_recompilation(where, seconds if programs or shape else 0.0, cause)
            if warning:
                log(warning)
        if compiled and not first and cause is not None and (programs or not prepared.programs):
            self._bound_compilations(trained, where, cause)

    def _where(self, trained: TrainedFunction) -> dict[str, Any]:
        return {"function": trained.name, "file": trained.file, "line": trained.line, "step": self.steps.count + 1}

    def _bound_compilations(self, trained: TrainedFunction, where: dict[str, Any], cause: RecompileCause) -> None:
        """Stop compiling for data whose shape changes without an end."""
        # Each way compiles for each shape once.
        trained.compiled_anew[trained.way] += 1
        times = trained.compiled_anew[trained.way]
        if times <= MOST_AGAIN or trained.phase == OWN:
            return
        trained.refused = TOO_OFTEN
        if trained.turns is None:
            trained.begin(LEFT)
        self._log_or_fail(self.record.add_given_up(times, where, cause))

    # -- steps ----------------------------------------------------------------------------------------------------

    def _step(self, trained: TrainedFunction, compiled: bool, seconds: float, changed: bool) -> None:
        trained.calls += 1
        if trained.calls == 1:
            trained.tell = self.choices.teller(trained)
            self._first_step(trained)
        if self._counts(trained):
            self._tick(trained, compiled, changed)
        trained.compiled_calls += compiled
        if trained.turns is not None:
            self.choices.take_turn(trained, trained.turns, seconds, changed, self.steps.count)
        elif trained.phase == BASELINE and trained.calls >= self.settings.eager_steps:
            self.compile(trained)
        trained.refused = ""

    def _first_step(self, trained: TrainedFunction) -> None:
        if trained.phase == BASELINE and self.clustering.is_the_scripts():
            self.own(trained)
        elif trained.states_no_xla:
            self.leave(trained, STATES_NO_XLA, "remove that argument", False)
        elif trained.phase == BASELINE and self.choices.can_choose():
            self.choices.begin(trained, self.tracing.fingerprint)

    def _counts(self, trained: TrainedFunction) -> bool:
        self._others = 0 if trained is self._primary else self._others + 1
        if self._primary is None or self._others > STALE:
            self._primary, self._others = trained, 0
        return trained is self._primary

    def _tick(self, trained: TrainedFunction, compiled: bool, changed: bool) -> None:
        phase = EAGER if not compiled else WARM_UP if changed or not trained.compiled_calls else AFTER
        # A processor has done it when it returns.
        idle = not tf_internals.list_gpus() or self.steps.wants_device_idle(phase)
        if idle:
            tf_internals.wait_for_devices()
        measured = not (phase == EAGER and (changed or trained.calls == 1))
        self.steps.tick(phase, time.perf_counter(), measured and idle)
        if self.writer.after_step():
            self._bound_dumps()
            self.steps.resume(time.perf_counter())

    def _bound_dumps(self) -> None:
        if prepared.dumps and os.path.isdir(prepared.dumps):
            cache_folder.prune(os.path.dirname(prepared.dumps), MOST_DUMPED)

    def _step_without_function(self) -> None:
        self._after_a_fork()
        line = functions.find_user_line()
        trained = self._lines.setdefault(
            line, TrainedFunction(f"the step at {os.path.basename(line[0])}:{line[1]}", *line)
        )
        trained.calls += 1
        # Once is not yet a loop.
        if trained.calls == 2:
            self.leave(trained, NO_FUNCTION, "put @tf.function on the function of a step")
        if self._counts(trained):
            self._tick(trained, False, False)

    # -- compiling ------------------------------------------------------------------------------------------------

    def compile(self, trained: TrainedFunction) -> None:
        """Compile from the next step on, without measuring."""
        trained.begin(COMPILED)
        random = trained.way in trained.random
        self.record.add_compiled(trained.name, trained.file, trained.line, trained.parameters, random)
        log(f"compiling {trained.name} with xla ({trained.way}), after {self.steps.count} steps without it")
        self.writer.write()

    @never_raises
    def own(self, trained: TrainedFunction) -> None:
        trained.begin(OWN)
        if self.record.add_eager(trained.name, OWN_REASON):
            log(f"the script itself compiles {trained.name}: it is left as it is")

    @never_raises
    def leave(self, trained: TrainedFunction, reason: str, remedy: str, wanted: bool = True) -> None:
        trained.begin(LEFT)
        if self.record.add_eager(trained.name, reason, remedy) and wanted:
            self._log_or_fail(self.record.warn(f"{trained.name} is not compiled: {reason}. Remedy: {remedy}"))

    def refuse_way(self, trained: TrainedFunction, reason: str, later: str = "") -> None:
        """Run without XLA from now on. `later`: the warning, if the way has trained already."""
        trained.refused = reason
        if trained.turns is None:
            trained.begin(LEFT)
            self.record.add_eager(trained.name, reason)
            later = later or f"{trained.name} is not compiled: {reason}"
        if later:
            self._log_or_fail(self.record.warn(later))

    def fail_way(self, trained: TrainedFunction, fault: Exception) -> None:
        """Leave a way that XLA does not take. The step has run without it."""
        trained.ran = WITHOUT_XLA
        if trained.way == WHOLE:
            self.fall_back(trained, fault, 0)
        else:
            self.refuse_way(trained, f"XLA does not take it: {type(fault).__name__}: {short_reason(str(fault))}")

    def fall_back(self, trained: TrainedFunction, fault: Exception, lost: int) -> None:
        """Compile in parts from now on: XLA does not take the function as a whole."""
        warning = self.record.add_failure(self._where(trained), fault, lost)
        trained.ways, trained.refused, trained.expects_trace = (CLUSTERS,), short_reason(str(fault)), True
        self._log_or_fail(warning)

    def _log_or_fail(self, text: str) -> None:
        if self.settings.strict:
            self.writer.write()
            raise StrictError(f"DLC_COMPILER_STRICT=1: {text}")
        log(text)


@functools.cache
def start() -> Session:
    """Return the process's session; begin it at the first call."""
    session = Session(settings_of.read_settings(os.environ))
    session.start()
    return session


def current() -> Session | None:
    """Return the process's session, None before it has begun."""
    return start() if start.cache_info().currsize else None
