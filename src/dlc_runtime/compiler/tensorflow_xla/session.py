"""One process's use of XLA: measures the first steps as the script has them, then chooses a way, and reports.

A step is a call of the tf.function, or of Keras's train function, in which a tape was asked for gradients. Each of
these functions has its ways, which take turns until it is known which one is the fastest.
"""

from __future__ import annotations

import functools
import os
import time
import weakref

import tensorflow as tf

from dlc_runtime.compiler import cache
from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.hooks import log, never_raises
from dlc_runtime.compiler.report.choosing import EAGER as WITHOUT_XLA
from dlc_runtime.compiler.report.record import SHAPE, RecompileCause
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.writer import Writer
from dlc_runtime.compiler.settings import StrictError
from dlc_runtime.compiler.tensorflow_xla import functions, tf_internals
from dlc_runtime.compiler.tensorflow_xla.choices import Choices
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import Program, Programs, XlaRecord, reason_of
from dlc_runtime.compiler.tensorflow_xla.functions import BASELINE, COMPILED, LEFT, OWN, Owner
from dlc_runtime.compiler.tensorflow_xla.preparation import prepared
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, TOO_OFTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings
    from dlc_runtime.compiler.tensorflow_xla.functions import Leaf

STALE = 20  # steps of others, and the steps of another function are counted from then on
MOST_DUMPED = 1 << 28  # bytes of debug mode's files
OWN_REASON = "the script compiles it itself"
GRAPHS = (
    "compiling the graphs of each Session with xla (auto-clustering), from the first step on: of scripts of "
    "TensorFlow 1 the report has no steps"
)
NO_FUNCTION = "its step runs without tf.function, so there is no graph to compile"
MOST_AGAIN = 8  # times that XLA compiles a function again before it runs without XLA
STATES_NO_XLA = "the script says jit_compile=False"


class Session:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tracing = tf_internals.Tracing()
        self.failed = False
        self.reset()

    def reset(self) -> None:
        self.process = os.getpid()
        self.current: Owner | None = None  # what is being called; what it calls is a part of it
        self.record, self.steps = XlaRecord(), StepTimes()
        self.record.cache = prepared.cache
        self.writer = Writer(self.settings, self.record, self.steps, tf_internals.facts)
        folder = prepared.cache.get("folder", "")
        self.choices = Choices(self.settings, self.record, folder, self.writer.write)
        self.programs = Programs(prepared.programs, prepared.private)
        self._functions: weakref.WeakKeyDictionary[Any, Owner] = weakref.WeakKeyDictionary()
        self._lines: dict[tuple[str, int], Owner] = {}  # of steps without a tf.function
        self._primary: Owner | None = None  # its steps are counted
        self._others = 0
        self._clustering: bool | None = None  # None: ours to set, and not set yet

    def start(self) -> None:
        if not self.tracing.listen():
            self.record.notes.append("this TensorFlow does not tell how long tracing takes: it counts as compiling")
        if not prepared.programs:
            self.record.notes.append(
                "this TensorFlow does not tell what XLA compiles: the report has what was traced instead"
            )
        wrap_sessions(self.note_session)
        tf_internals.wrap_gradient(self.note_gradient)
        tf_internals.wrap_call(self.call_function)

    # -- calls ----------------------------------------------------------------------------------------------------

    def call_function(self, function: Any, call: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.failed or self.current is not None or not tf.executing_eagerly():
            return call(function, *arguments, **named)
        self._after_a_fork()
        self._meet(function)
        owner = self._functions.get(function)
        if owner is None:
            return call(function, *arguments, **named)
        return self.run(
            owner,
            lambda: call(function, *arguments, **named),
            lambda: functions.signature(function.python_function, arguments, named),
        )

    def run(self, owner: Owner, call: Callable[[], Any], signature: Callable[[], dict[str, Leaf]]) -> Any:
        self._choose_clustering(owner)
        way = owner.way
        traced, started = self.tracing.seconds, time.perf_counter()
        self.tracing.random, self.current = False, owner
        try:
            with tf_internals.without_our_frames():
                result = call()
            if owner.turns is not None:
                tf_internals.wait_for_devices()
        finally:
            self.current = None
        self._after(owner, way, time.perf_counter() - started, self.tracing.seconds - traced, signature)
        return result

    @never_raises
    def note_gradient(self) -> None:
        """A tape is asked for gradients: what is being called trains."""
        if self.failed:
            return
        if self.current is not None:
            self.current.training = True
            if tf.executing_eagerly() and self.current.phase == BASELINE:
                self.leave(self.current, "it runs eagerly (run_functions_eagerly)", "remove that line")
        elif tf.executing_eagerly():
            self._step_without_function()

    def note_session(self) -> None:
        if GRAPHS not in self.record.notes:
            self.record.notes.append(GRAPHS)
            log(GRAPHS)

    @never_raises
    def _meet(self, function: Any) -> None:
        if function not in self._functions:
            owner = self._functions[function] = functions.of_function(function)
            stated = tf_internals.stated_jit(function)
            if stated:
                self.own(owner)
            elif stated is not None:
                owner.states_no_xla = True
                owner.begin(LEFT)

    def fail(self, fault: Exception) -> None:
        """A fault of ours: what is compiled stays so, and nothing more is done."""
        self.failed = True
        self._log_or_fail(self.record.warn(f"nothing more is compiled or reported: {type(fault).__name__}: {fault}"))
        self.writer.write()

    def _after_a_fork(self) -> None:
        if os.getpid() != self.process:
            self.reset()

    # -- what a call has done -------------------------------------------------------------------------------------

    @never_raises
    def _after(
        self, owner: Owner, way: str, seconds: float, traced: float, signature: Callable[[], dict[str, Leaf]]
    ) -> None:
        programs = self.programs.new()
        owner.random |= self.tracing.random
        compiled = owner.phase == OWN or (way != WITHOUT_XLA and not owner.refused)
        cause = self._cause_of_tracing(owner, signature) if traced else None
        if owner.turns is not None and not compiled:
            cause = None  # the other way has told it, or will
        if owner.training or programs:
            self._add_programs(owner, compiled, programs, cause, max(0.0, seconds - traced - self._usual()))
        if owner.training:
            self._step(owner, compiled, seconds, bool(traced or programs))

    def _usual(self) -> float:
        return self.steps.phases[EAGER].median or 0.0

    def _cause_of_tracing(self, owner: Owner, signature: Callable[[], dict[str, Leaf]]) -> RecompileCause | None:
        old, owner.signature = owner.signature, signature()
        expected, owner.expects_trace = owner.expects_trace, False
        return None if expected else functions.cause_of_tracing(old, owner.signature)

    def _add_programs(
        self, owner: Owner, compiled: bool, programs: list[Program], cause: RecompileCause | None, seconds: float
    ) -> None:
        where = self._where(owner)
        first = compiled and not owner.compiled_calls
        again = owner.compiled_again(programs)
        if programs or first:
            self.record.compile_seconds += seconds
            self.record.add_programs(where, seconds, programs, first, bool(prepared.programs))
        if again and (cause is None or cause.kind == "other"):
            cause = RecompileCause("shape" if " is " in again else "other", again, SHAPE)
        if cause is not None:
            warning = self.record.add_recompilation(where, seconds if programs else 0.0, cause)
            if warning:
                log(warning)
        if compiled and not first and cause is not None and (programs or not prepared.programs):
            self._bound_compilations(owner, where, cause)

    def _where(self, owner: Owner) -> dict[str, Any]:
        return {"function": owner.name, "file": owner.file, "line": owner.line, "step": self.steps.count + 1}

    def _bound_compilations(self, owner: Owner, where: dict[str, Any], cause: RecompileCause) -> None:
        """Data whose shape changes without an end would have a program compiled for each batch."""
        owner.compiled_anew += 1
        if owner.compiled_anew <= MOST_AGAIN or owner.phase == OWN:
            return
        owner.refused = TOO_OFTEN
        if owner.turns is None:
            owner.begin(LEFT)
        self._log_or_fail(self.record.add_given_up(owner.compiled_anew, where, cause))

    # -- steps ----------------------------------------------------------------------------------------------------

    def _step(self, owner: Owner, compiled: bool, seconds: float, changed: bool) -> None:
        owner.calls += 1
        if owner.calls == 1:
            self._first_step(owner)
        if self._counts(owner):
            self._tick(owner, compiled, changed)
        owner.compiled_calls += compiled
        if owner.turns is not None:
            self.choices.take_turn(owner, owner.turns, seconds, changed, self.steps.count)
        elif owner.phase == BASELINE and owner.calls >= self.settings.eager_steps:
            self.compile(owner)
        owner.refused = ""

    def _first_step(self, owner: Owner) -> None:
        if owner.phase == BASELINE and self._clusters_itself():
            self.own(owner)
        elif owner.states_no_xla:
            self.leave(owner, STATES_NO_XLA, "remove that argument", False)
        elif owner.phase == BASELINE and self.choices.can_choose():
            self.choices.begin(owner, self.tracing.fingerprint)

    def _counts(self, owner: Owner) -> bool:
        self._others = 0 if owner is self._primary else self._others + 1
        if self._primary is None or self._others > STALE:
            self._primary, self._others = owner, 0
        return owner is self._primary

    def _tick(self, owner: Owner, compiled: bool, changed: bool) -> None:
        phase = EAGER if not compiled else WARM_UP if changed or not owner.compiled_calls else AFTER
        idle = not tf_internals.gpus() or self.steps.wants_device_idle(phase)  # a processor has done it when it returns
        if idle:
            tf_internals.wait_for_devices()
        measured = not (phase == EAGER and (changed or owner.calls == 1))
        self.steps.tick(phase, time.perf_counter(), measured and idle)
        if self.writer.after_step():
            self._bound_dumps()
            self.steps.resume(time.perf_counter())

    def _bound_dumps(self) -> None:
        if prepared.dumps and os.path.isdir(prepared.dumps):
            cache.prune(os.path.dirname(prepared.dumps), MOST_DUMPED)

    def _step_without_function(self) -> None:
        self._after_a_fork()
        line = functions.users_line()
        owner = self._lines.setdefault(line, Owner(f"the step at {os.path.basename(line[0])}:{line[1]}", *line))
        owner.calls += 1
        if owner.calls == 2:  # once is not yet a loop
            self.leave(owner, NO_FUNCTION, "put @tf.function on the function of a step")
        if self._counts(owner):
            self._tick(owner, False, False)

    # -- compiling ------------------------------------------------------------------------------------------------

    def compile(self, owner: Owner) -> None:
        """From its next step on, without being measured."""
        owner.begin(COMPILED)
        self.record.add_compiled(owner.name, owner.file, owner.line, owner.parameters, owner.random)
        log(f"compiling {owner.name} with xla ({owner.way}), after {self.steps.count} steps without it")
        self.writer.write()

    def _clusters_itself(self) -> bool:
        return self._clustering is None and bool(tf.config.optimizer.get_jit())

    @never_raises
    def _choose_clustering(self, owner: Owner) -> None:
        """It holds for everything that is called while it is on: only what is compiled by it is called so."""
        wanted = owner.way == CLUSTERS
        if wanted != bool(self._clustering) and owner.phase != OWN:
            self._clustering = wanted
            tf_internals.cluster(wanted)

    @never_raises
    def own(self, owner: Owner) -> None:
        owner.begin(OWN)
        if self.record.add_eager(owner.name, OWN_REASON):
            log(f"the script itself compiles {owner.name}: it is left as it is")

    @never_raises
    def leave(self, owner: Owner, reason: str, remedy: str, wanted: bool = True) -> None:
        owner.begin(LEFT)
        if self.record.add_eager(owner.name, reason, remedy) and wanted:
            self._log_or_fail(self.record.warn(f"{owner.name} is not compiled: {reason}. Remedy: {remedy}"))

    def fall_back(self, owner: Owner, fault: Exception, lost: int) -> None:
        """XLA does not take it as a whole: from now on what it can take of it, in parts."""
        warning = self.record.add_failure(self._where(owner), fault, lost)
        owner.ways, owner.refused, owner.expects_trace = (CLUSTERS,), reason_of(str(fault)), True
        self._log_or_fail(warning)

    def _log_or_fail(self, text: str) -> None:
        if self.settings.strict:
            self.writer.write()
            raise StrictError(f"DLC_COMPILER_STRICT=1: {text}")
        log(text)


def wrap_sessions(noticed: Callable[[], None]) -> None:
    """`noticed` is called before each Session that is made to cluster."""
    owner = tf.compat.v1.Session
    original = owner.__init__

    @functools.wraps(original)
    def make(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        noticed()
        original(self, target, graph, clustering(config))

    owner.__init__ = make


def clustering(config: Any) -> Any:
    """The script's own choice stays."""
    result = tf.compat.v1.ConfigProto()
    if config is not None:
        result.CopyFrom(config)
    options = result.graph_options.optimizer_options
    if options.global_jit_level == options.DEFAULT:
        options.global_jit_level = options.ON_1
    return result


@functools.cache
def start() -> Session:
    """The process's session, begun at the first call."""
    session = Session(settings_of.read_settings(os.environ))
    session.start()
    return session


def current() -> Session | None:
    """The process's session, None before it has begun."""
    return start() if start.cache_info().currsize else None
