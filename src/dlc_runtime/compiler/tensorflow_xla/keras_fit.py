"""Replaces Keras's train function (Keras 3, tf-keras, Keras 2), and can give it a batch more than once."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from contextlib import nullcontext

from dlc_runtime.compiler.choosing.candidates import EAGER as WITHOUT_XLA
from dlc_runtime.compiler.tensorflow_xla import functions
from dlc_runtime.compiler.tensorflow_xla import session as sessions
from dlc_runtime.compiler.tensorflow_xla.batch_shapes import has_fixed_shapes, read_shapes
from dlc_runtime.compiler.tensorflow_xla.functions import BASELINE, LEFT, OWN, Leaf, TrainedFunction, describe_leaf
from dlc_runtime.compiler.tensorflow_xla.keras_batches import Feed
from dlc_runtime.compiler.tensorflow_xla.preparation import prepared
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, WHOLE
from dlc_runtime.compiler.tensorflow_xla.whole_graph import compiled_as_a_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.tensorflow_xla.session import Session

# A model's attribute: its setter would throw away what is compiled.
SWITCH = "_jit_compile"
UNSTATED = "auto"
# States what was resolved when the model was saved.
LOADED = "compile_from_config"
# Batches of a data set that states all shapes: there is one.
FIXED = ("fixed",)
COMPILE_ERRORS = ("XLA", "when trying to compile", "jit_compile")

_stated: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_trained: weakref.WeakKeyDictionary[Any, TrainedFunction] = weakref.WeakKeyDictionary()


def patch(trainer: Any) -> None:
    # Keras compiles a loaded model only if its class has no `compile` other than Keras's own.
    defines = next(base for base in trainer.__mro__ if "compile" in vars(base))
    make, compile_model = trainer.make_train_function, defines.compile

    @functools.wraps(compile_model)
    def compile_and_note(self: Any, *arguments: Any, **named: Any) -> Any:
        if sys._getframe(1).f_code.co_name != LOADED:
            _stated[self] = named.get("jit_compile", UNSTATED)
        return compile_model(self, *arguments, **named)

    @functools.wraps(make)
    def make_and_stand(self: Any, force: bool = False) -> Any:
        session = sessions.current()
        forced = (True,) if force else ()  # older ones take no argument
        if session is None or session.failed:
            return make(self, *forced)
        held = self.__dict__.get(SWITCH)
        if not force and isinstance(self.train_function, TrainFunction):
            return self.train_function
        try:
            route = find_route(self)
        except Exception as fault:
            session.fail(fault)
            return make(self, *forced)
        # Keras 3 may have chosen it by itself: the first steps are measured without.
        if route.jit:
            self.__dict__[SWITCH] = False
        try:
            result = make(self, *forced)
        finally:
            restore_switch(self, held)
        # A make_train_function of the script's own.
        if self.train_function is None:
            return result
        self.train_function = TrainFunction(session, self, self.train_function, make, route)
        return result if result is None else self.train_function

    defines.compile, trainer.make_train_function = compile_and_note, make_and_stand


def compile_at_once(model: Any) -> None:
    """Compile from the first step on; `fit` makes the train function."""
    trained = _trained[model] = functions.describe_model(model)
    trained.ways = (WHOLE,)
    session = sessions.current()
    if session is not None:
        session.compile(trained)


def restore_switch(model: Any, held: Any) -> None:
    if SWITCH in model.__dict__:
        model.__dict__[SWITCH] = held


class Route:
    """How a model is compiled: as a whole, in parts, or not at all and why."""

    def __init__(self, jit: bool = False, own: bool = False, left: str = "", remedy: str = "", wanted: bool = True):
        self.jit, self.own, self.left, self.remedy, self.wanted = jit, own, left, remedy, wanted


def find_route(model: Any) -> Route:
    stated = _stated.get(model, UNSTATED)
    if model.run_eagerly:
        return Route(left="the script runs it eagerly (run_eagerly=True)", remedy="remove run_eagerly=True")
    if getattr(model, "_cluster_coordinator", None) is not None:
        return Route(left="parameter servers run its steps", remedy="use MultiWorkerMirroredStrategy")
    if stated is False:
        return Route(left="the script says jit_compile=False", remedy="remove that argument", wanted=False)
    if stated not in (UNSTATED, None):
        return Route(own=True)
    return Route(jit=SWITCH in model.__dict__ and not is_distributed(model) and supports_jit(model))


def is_distributed(model: Any) -> bool:
    """Tell whether it trains in replicas: their communication is no part of a compiled step."""
    return type(model.distribute_strategy).__name__ != "_DefaultDistributionStrategy"


def supports_jit(model: Any) -> bool:
    """Ask Keras 3's layers whether they can be compiled as a whole."""
    layers = getattr(model, "_flatten_layers", None)
    return all(getattr(layer, "supports_jit", True) for layer in (layers() if layers is not None else [model]))


class TrainFunction:
    """Called by a model for each step, in place of Keras's train function."""

    def __init__(self, session: Session, model: Any, function: Any, make: Callable[..., Any], route: Route) -> None:
        self._session, self._make, self._route = session, make, route
        self._model = weakref.ref(model)
        self._plain, self._compiled = function, None
        self._feed: Feed | None = None
        known = _trained.get(model)
        self.trained = known if known is not None else functions.describe_model(model)
        self.trained.training = True
        self.trained.forget_programs()
        _trained[model] = self.trained
        if route.own:
            session.own(self.trained)
        elif route.left:
            session.leave(self.trained, route.left, route.remedy, route.wanted)
        elif self.trained.phase in (OWN, LEFT):
            # Its first steps are measured again, and its ways after them.
            self.trained.begin(BASELINE)
            self.trained.calls = 0
        if not route.jit:
            self.trained.ways = (CLUSTERS,)
        elif self.trained.phase == BASELINE:
            self.trained.ways = (WHOLE, CLUSTERS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_plain"], name)

    def __call__(self, iterator: Any) -> Any:
        if self._session.failed:
            return self._plain(iterator)
        given: list[Any] = []
        if not (prepared.programs or hasattr(iterator, "element_spec")):
            given = list(itertools.islice(iterator, self._steps()))
            iterator = itertools.chain(given, iterator)
        return self._session.run(self.trained, lambda: self._run(iterator), lambda: describe_iterator(iterator), given)

    def _run(self, iterator: Any) -> Any:
        way, whole = self.trained.way, self._route.jit and self.trained.way == WHOLE
        if way == WITHOUT_XLA:
            return self._with_switch(self._plain, iterator, False)
        if whole and self._compiled is None:
            self._compiled = self._make_compiled()
        checked, spec = self._session.checked, getattr(iterator, "element_spec", None)
        is_fixed = spec is not None and has_fixed_shapes(spec)
        if is_fixed and not checked.is_due(self.trained, FIXED):
            return self._run_compiled(whole, iterator)
        feed = self._feed
        if feed is None or feed.spec != spec:
            self.trained.expects_trace = True
            feed = self._feed = Feed(spec, self._steps(), self._with_switch, self._session.tracing.apart)
        if not feed.can_give(iterator, self._plain):
            return checked.compare(
                self.trained, None, None, lambda: self._run_plain(iterator), lambda: self._run_compiled(whole, iterator)
            )
        batches = feed.take(iterator)
        shapes = FIXED if is_fixed else read_shapes(batches)
        self._session.batches.append(shapes)

        def other() -> Any:
            return feed.give(self._compiled if whole else self._plain, batches, whole)

        if not is_fixed and not checked.is_due(self.trained, shapes):
            return other()
        return checked.compare(self.trained, shapes, None, lambda: self._give_plain(feed, batches), other)

    def _give_plain(self, feed: Feed, batches: Any) -> Any:
        return self._session.clustering.without(lambda: feed.give_plain(self._plain, batches))

    def _run_plain(self, iterator: Any) -> Any:
        return self._session.clustering.without(lambda: self._with_switch(self._plain, iterator, False))

    def _run_compiled(self, whole: bool, iterator: Any) -> Any:
        """Run a step that was compared with eager, or that the job takes unchecked."""
        if not whole:
            return self._with_switch(self._plain, iterator, False)
        try:
            return self._with_switch(self._compiled, iterator, True)
        except Exception as fault:
            if not any(word in str(fault) for word in COMPILE_ERRORS):
                raise
            self._session.fall_back(self.trained, fault, self._steps())
            return self._with_switch(self._plain, iterator, False)

    def _make_compiled(self) -> Any:
        model: Any = self._model()
        held = model.__dict__[SWITCH]
        model.__dict__[SWITCH] = True
        self.trained.expects_trace = True
        try:
            self._make(model, True)
            return model.train_function
        finally:
            restore_switch(model, held)
            model.train_function = self

    def _with_switch(self, function: Any, iterator: Any, value: bool) -> Any:
        """Set the model's switch for one call, which tf-keras reads while it traces; else the script's value holds."""
        model = self._model()
        if not self._route.jit or model is None:
            return function(iterator)
        held = model.__dict__[SWITCH]
        model.__dict__[SWITCH] = value
        try:
            with compiled_as_a_whole() if value else nullcontext():
                return function(iterator)
        finally:
            model.__dict__[SWITCH] = held

    def _steps(self) -> int:
        """Return how many batches a call takes."""
        steps: Any = getattr(self._model(), "steps_per_execution", None)
        if steps is None:
            steps = getattr(self._model(), "_steps_per_execution", None)
        return int(steps) if isinstance(steps, int) else int(steps.numpy()) if hasattr(steps, "numpy") else 1


def describe_iterator(iterator: Any) -> dict[str, Leaf]:
    """Return nothing for a generator, as of train_on_batch: what XLA compiles tells the shapes."""
    return {"iterator": describe_leaf(iterator)} if hasattr(iterator, "element_spec") else {}
