"""Functions that train (a tf.function, or a Keras model's), and the signatures each was compiled for."""

from __future__ import annotations

import inspect
import sys
from collections import Counter

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.hooks import IdentitySet
from dlc_runtime.compiler.report.record import OTHER, SHAPE, RecompileCause
from dlc_runtime.compiler.source_locations import is_user_code, location_of
from dlc_runtime.compiler.tensorflow_xla.checks import Checks
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import Program, describe_difference
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable

BASELINE, CHOOSING, COMPILED, OWN, LEFT = "baseline", "choosing", "compiled", "the script compiles", "left alone"
CONSTANT = "the same shapes, another value that XLA must know, such as a length"


class TrainedFunction:
    """One function that trains: how it is compiled, and what was seen of its calls."""

    def __init__(self, name: str, file: str, line: int, parameters: int = 0) -> None:
        self.name, self.file, self.line, self.parameters = name, file, line, parameters
        self.training = False
        self.random: set[str] = set()  # ways that draw others
        self.phase = BASELINE
        self.calls = self.compiled_calls = 0
        # Calls in which XLA compiled it again, by way.
        self.compiled_anew: Counter[str] = Counter()
        # Ways of XLA, in the order of trying.
        self.ways: tuple[str, ...] = (CLUSTERS,)
        self.turns: Turns | None = None  # if it chooses
        # Why the way of the last call cannot be used.
        self.refused = ""
        # The step after which a way was taken.
        self.decided_at = 0
        # A kept choice depends on these.
        self.facts: dict[str, Any] = {}
        self.states_no_xla = False
        # Nothing to report: the first one, and the one that compiling needs.
        self.expects_trace = True
        self.signature: dict[str, Leaf] | None = None
        self.met: dict[str, Any] = {}  # shapes, by way
        # Its graphs, which reach the variables that it trains, and their number formats.
        self.graphs = IdentitySet()
        self.formats: set[str] = set()
        # It takes batches whose shapes can change.
        self.takes_unseen = False
        # How the last call ran, and whether it was none of the steps that are measured.
        self.ran, self.aside = EAGER, False
        # Tells the other processes of the training a text and returns those of all; None if there are none.
        self.tell: Callable[[str], list[str]] | None = None
        self._checks: dict[str, Checks] = {}
        self._shapes: dict[str, tuple[str, ...]] = {}

    def begin(self, phase: str, turns: Turns | None = None) -> None:
        self.phase, self.turns = phase, turns

    @property
    def way(self) -> str:
        """Return how the next call runs."""
        if self.turns is not None:
            return self.turns.way
        return self.ways[0] if self.phase == COMPILED else EAGER

    def checks_of(self, way: str) -> Checks:
        return self._checks.setdefault(way, Checks(len(self.name), self.tell))

    def forget_programs(self) -> None:
        """Forget what was compiled: the functions are new, and compiling them is no recompilation."""
        self.compiled_calls, self.expects_trace = 0, True
        self._shapes.clear()
        self.met.clear()
        self._checks.clear()

    def compiled_again(self, programs: list[Program]) -> str:
        """Describe what changed in a program compiled earlier, "" if all are new. Keep their shapes.

        A shape before anything else: programs that are cut out behind it have other constants because of it.
        """
        shape = constant = ""
        for program in programs:
            old = self._shapes.get(program.name)
            if old is not None and program.name:
                changed = describe_difference(old, program.shapes)
                shape = shape or (f"{program.name}: {changed}" if changed else "")
                constant = constant or f"{program.name}: {CONSTANT}"
            self._shapes[program.name] = program.shapes
        return shape or constant


def describe_function(function: Any) -> TrainedFunction:
    python = getattr(function, "python_function", function)
    name = getattr(python, "__qualname__", type(python).__name__).replace("<locals>.", "")
    return TrainedFunction(name, *location_of(python))


def describe_model(model: Any) -> TrainedFunction:
    file, line = location_of(type(model).call) if hasattr(type(model), "call") else ("", 0)
    name = type(model).__name__
    if not is_user_code(file):
        name, (file, line) = str(getattr(model, "name", name)), find_user_line()
    return TrainedFunction(name, file, line, count_parameters(model))


def count_parameters(model: Any) -> int:
    try:
        return int(model.count_params())
    except Exception:
        # A model that is not built yet.
        return 0


def find_user_line() -> tuple[str, int]:
    """Return the line of the user's that is running now, or ("", 0)."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


VALUE = "pass it as a tensor (tf.constant), or keep it in a tf.Variable: each new Python value is traced anew"
OBJECT = "create it once, outside of the loop, and pass the same object each time"
KIND = "pass the same type in every step (tf.cast)"
DEEPEST, LONGEST = 4, 200


class Leaf:
    """A part of an argument: its kind, its words in a message, and the key that tells it apart."""

    def __init__(self, kind: str, text: str, key: object) -> None:
        self.kind, self.text, self.key = kind, text[:LONGEST], key


def read_signature(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Leaf]:
    """Return the leaves by name, such as `batch[0]`."""
    leaves: dict[str, Leaf] = {}
    for name, value in bind_arguments(function, arguments, named).items():
        add_leaves(name, value, leaves, 0)
    return leaves


def bind_arguments(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*arguments, **named).arguments)
    except (TypeError, ValueError):
        return {**{f"argument {place}": value for place, value in enumerate(arguments)}, **named}


def add_leaves(name: str, value: Any, leaves: dict[str, Leaf], depth: int) -> None:
    if isinstance(value, (list, tuple)) and depth < DEEPEST:
        for place, part in enumerate(value):
            add_leaves(f"{name}[{place}]", part, leaves, depth + 1)
    elif isinstance(value, dict) and depth < DEEPEST:
        for key, part in value.items():
            add_leaves(f"{name}[{key!r}]", part, leaves, depth + 1)
    else:
        leaves[name] = describe_leaf(value)


def describe_leaf(value: Any) -> Leaf:
    element = getattr(value, "element_spec", None)
    if element is not None:
        return Leaf("shape", f"an iterator over {element}", str(element))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        kind, shape = getattr(value.dtype, "name", str(value.dtype)), tuple(value.shape)
        return Leaf("shape", f"a {kind} tensor of shape {shape}", (kind, shape))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return Leaf("number", f"the Python value {value!r}", (type(value), value))
    return Leaf("object", f"another {type(value).__name__}", id(value))


def cause_of_tracing(old: dict[str, Leaf] | None, new: dict[str, Leaf]) -> RecompileCause:
    for name in new:
        if old is None or name not in old or old[name].key == new[name].key:
            continue
        before, after = old[name], new[name]
        text = f"'{name}' is {after.text}"
        if after.kind == "object":
            return RecompileCause("object", f"{text} than before", OBJECT)
        same_type = after.kind != "shape" or same_dtype(before, after)
        remedy = {"shape": SHAPE if same_type else KIND, "number": VALUE}[after.kind]
        return RecompileCause(after.kind if same_type else "type", f"{text}, it was {before.text}", remedy)
    if old is not None and set(old) != set(new):
        return RecompileCause("structure", f"the arguments are {', '.join(new)}, they were {', '.join(old)}", OBJECT)
    return RecompileCause("other", "it was traced again for the same arguments", OTHER)


def same_dtype(before: Leaf, after: Leaf) -> bool:
    keys = (before.key, after.key)
    return not all(isinstance(key, tuple) for key in keys) or keys[0][0] == keys[1][0]  # type: ignore[index]
