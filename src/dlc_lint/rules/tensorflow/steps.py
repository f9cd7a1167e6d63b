"""DLC201 to DLC203, DLC205, DLC206: how a training step is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.rules.tensorflow.jit import is_value_dependent
from dlc_lint.script.datasets import is_dataset
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.tf_functions import TF_FUNCTION, enclosing, functions_named, graph_functions, keras_compiles
from dlc_lint.script.training_steps import calls_of, guarded, nearest_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Loop, Script

EAGER_SWITCHES = (
    "tensorflow.config.run_functions_eagerly", "tensorflow.config.experimental_run_functions_eagerly",
)  # fmt: skip
KERAS_METHODS = {"train_step", "test_step", "call", "compute_loss"}
CHANGES_WEIGHTS = {"apply_gradients", "apply", "minimize", "assign_sub", "assign_add"}
WRAPPERS = {"enumerate", "tqdm.tqdm", "tqdm"}
LONG_LOOPS = {"range", "tqdm.trange", *WRAPPERS}
FEWEST_STEPS = 10


def eager_step(script: Script) -> Iterator[Hit]:
    """Find DLC201."""
    graph = graph_functions(script)
    for block in script.all(cst.With):
        tape = next((one.item for one in block.items if _is_tape(script, one.item)), None)
        function = script.function(block)
        if tape is None or enclosing(script, block, graph) is not None or _wanted_eager(script, block):
            continue
        if function is not None and function.name.value in KERAS_METHODS and script.around(function, cst.ClassDef):
            continue
        if _trains(script, block, function) and _runs_in_loop(script, block, function) and not _eager_by_choice(script):
            yield Hit(tape, f"this training step runs operation by operation; {_remedy(script, block, function)}")


def _remedy(script: Script, block: cst.With, function: cst.FunctionDef | None) -> str:
    """Return what works for this step: a graph has no values for Python, and XLA no shapes that depend on values."""
    calls = list(script.inside(function.body if function is not None else block.body, cst.Call))
    reads = next((one for one in calls if attribute(one.func) == "numpy" and not one.args), None)
    stays_out = f", and leave {script.code(reads)} of line {script.line(reads)} outside of it" if reads else ""
    shapes = next((one for one in calls if is_value_dependent(script, one)), None)
    if shapes is None:
        return f"put it in a function with @tf.function(jit_compile=True){stays_out}"
    return (
        f"put it in a function with @tf.function{stays_out}. It cannot have jit_compile=True as it is: the shape of "
        f"{script.code(shapes.func)} in line {script.line(shapes)} depends on values"
    )


def _wanted_eager(script: Script, block: cst.CSTNode) -> bool:
    """Recognise `if mode == "eager":` around it."""
    tests = [script.code(one.test).lower() for one in script.ancestors(block) if isinstance(one, cst.If)]
    return any(word in test for test in tests for word in ("eager", "debug"))


def _trains(script: Script, block: cst.CSTNode, function: cst.FunctionDef | None) -> bool:
    """Return whether weights change beside the tape."""
    around = nearest_loop(script, block) or function
    return around is not None and any(attribute(one.func) in CHANGES_WEIGHTS for one in script.inside(around, cst.Call))


def _is_tape(script: Script, item: cst.BaseExpression) -> bool:
    return isinstance(item, cst.Call) and script.is_one_of(item.func, {"tensorflow.GradientTape"})


def _runs_in_loop(script: Script, block: cst.CSTNode, function: cst.FunctionDef | None) -> bool:
    if nearest_loop(script, block) is not None:
        return True
    return function is not None and any(nearest_loop(script, one) is not None for one in calls_of(script, function))


def _eager_by_choice(script: Script) -> bool:
    """Return whether another rule says it."""
    return any(True for _ in _run_eagerly(script))


def _run_eagerly(script: Script) -> Iterator[cst.CSTNode]:
    """Return what turns tf.function off for the whole training: nothing decides about it, or turns it on again."""
    for call in script.calls(*EAGER_SWITCHES):
        switched = literal(script.argument(call, "run_eagerly", 0))
        if switched is True and not _by_choice(script, call) and not _switched_back(script, call):
            yield call
    for call in keras_compiles(script):
        if literal(script.argument(call, "run_eagerly")) is True and not _by_choice(script, call):
            yield script.arg(call, "run_eagerly")


def _switched_back(script: Script, call: cst.Call) -> bool:
    later = [one for one in script.calls(*EAGER_SWITCHES) if script.before(call, one)]
    return any(literal(script.argument(one, "run_eagerly", 0)) is not True for one in later)


def _by_choice(script: Script, node: cst.CSTNode) -> bool:
    """Recognise code below `if debug:`; `if __name__ == "__main__":` is no choice."""
    below = node
    for one in script.ancestors(node):
        if isinstance(one, (cst.If, cst.IfExp)) and below is not one.test and "__name__" not in script.code(one.test):
            return True
        if isinstance(one, cst.FunctionDef) and "debug" in one.name.value.lower():
            return True
        below = one
    return False


def run_eagerly(script: Script) -> Iterator[Hit]:
    """Find DLC202."""
    for node in _run_eagerly(script):
        yield Hit(
            node, "this turns tf.function and its compiler off for the whole training; leave it out after debugging"
        )


def reads_every_step(script: Script) -> Iterator[Hit]:
    """Find DLC203."""
    graph = graph_functions(script)
    for call in script.all(cst.Call):
        loop = nearest_loop(script, call)
        if (
            loop is None
            or enclosing(script, call, graph)
            or guarded(script, call, loop.body)
            or _over_epochs(script, loop)
        ):
            continue
        result = _read(script, call)
        if result is not None and _from_step(script, result, loop):
            yield Hit(
                call,
                f"{script.code(call)} waits for the step's result in each step; read it every 10 steps "
                "or more, or keep it in a metric",
            )


def _over_epochs(script: Script, loop: Loop) -> bool:
    words = script.code(loop.target) + script.code(loop.iter) if isinstance(loop, cst.For) else ""
    return "epoch" in words.lower()


def _read(script: Script, call: cst.Call) -> cst.BaseExpression | None:
    """Return the expression that `loss.numpy()`, `float(loss)`, `print(loss)` read."""
    if attribute(call.func) == "numpy" and isinstance(call.func, cst.Attribute):
        return call.func.value
    if script.is_one_of(call.func, {"float", "int"}) and len(call.args) == 1:
        return call.args[0].value
    if script.is_one_of(call.func, {"print", "tensorflow.print"}):
        return next((arg.value for arg in call.args if isinstance(arg.value, cst.Name)), None)
    return None


def _from_step(script: Script, result: cst.BaseExpression, loop: Loop) -> bool:
    """Return whether it is what a graph function with a tape gave in this turn of the loop."""
    value = result
    if isinstance(result, cst.Name):
        values = [one for one in script.values(result) if one is None or nearest_loop(script, one) is loop]
        if len(values) != 1 or not isinstance(values[0], cst.BaseExpression):
            return False
        value = values[0]
    if not isinstance(value, cst.Call):
        return False
    steps = {id(one.node) for one in graph_functions(script) if one.is_root}
    return any(
        id(function) in steps and _has_tape(script, function) for function in functions_named(script, value.func)
    )


def _has_tape(script: Script, function: cst.CSTNode) -> bool:
    return any(attribute(one.func) in ("GradientTape", "run") for one in script.inside(function, cst.Call))


def function_in_loop(script: Script) -> Iterator[Hit]:
    """Find DLC205."""
    for call in script.calls(TF_FUNCTION):
        is_decorator = isinstance(script.parent(call), cst.Decorator)
        if not is_decorator and _in_long_loop(script, call):
            yield Hit(
                call,
                "tf.function here makes a new function in each turn of the loop, and each is traced "
                "and compiled; make it once before the loop",
            )
    for function in script.all(cst.FunctionDef):
        for decorator in function.decorators:
            made = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
            if script.is_one_of(made, {TF_FUNCTION}) and _in_long_loop(script, function):
                yield Hit(
                    decorator,
                    "this makes a new tf.function in each turn of the loop, and each is traced and "
                    "compiled; define it once before the loop",
                )


def _in_long_loop(script: Script, node: cst.CSTNode) -> bool:
    loop = nearest_loop(script, node)
    if loop is None or guarded(script, node, loop.body):
        return False
    return isinstance(loop, cst.While) or _has_many_turns(script, loop.iter)


def _has_many_turns(script: Script, iterated: cst.BaseExpression) -> bool:
    """Recognise a long `range`, or batches of a data set; not `for model in models`."""
    if not isinstance(iterated, cst.Call) or not script.is_one_of(iterated.func, LONG_LOOPS):
        return is_dataset(script, iterated)
    if script.is_one_of(iterated.func, WRAPPERS):
        return bool(iterated.args) and _has_many_turns(script, iterated.args[0].value)
    number = literal(iterated.args[-1].value) if iterated.args else ...
    return not isinstance(number, int) or number > FEWEST_STEPS


def saves_every_step(script: Script) -> Iterator[Hit]:
    """Find DLC206."""
    for call in script.calls("keras.callbacks.ModelCheckpoint"):
        number = literal(script.argument(call, "save_freq"))
        if isinstance(number, int) and 1 <= number < FEWEST_STEPS:
            yield Hit(
                script.arg(call, "save_freq"),
                f"save_freq={number} counts batches: training stops for a checkpoint nearly all the "
                'time; use "epoch", or some hundred',
            )
    for call in script.all(cst.Call):
        loop = nearest_loop(script, call)
        if (
            loop is None
            or attribute(call.func) not in ("save", "save_weights")
            or guarded(script, call, loop.body)
            or _over_epochs(script, loop)
        ):
            continue
        if _saves(script, call) and _runs_step(script, loop):
            yield Hit(
                call,
                "a checkpoint in each step makes the device wait for the disk; save once an epoch, or "
                "every some hundred steps",
            )


def _saves(script: Script, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "save_weights":
        return True
    made = script.value(call.func.value)
    return isinstance(made, cst.Call) and script.name(made.func) in (
        "tensorflow.train.Checkpoint",
        "tensorflow.train.CheckpointManager",
    )


def _runs_step(script: Script, loop: Loop) -> bool:
    """Return whether the loop itself, not one inside it, calls a function with a tape."""
    for call in script.inside(loop.body, cst.Call):
        if nearest_loop(script, call) is loop and any(
            _has_tape(script, one) for one in functions_named(script, call.func)
        ):
            return True
    return False


RULES = (
    Rule("DLC201", "a training step without tf.function", eager_step),
    Rule("DLC202", "functions run eagerly", run_eagerly),
    Rule("DLC203", "each training step reads a tensor", reads_every_step),
    Rule("DLC205", "a tf.function is made in a loop", function_in_loop),
    Rule("DLC206", "each training step saves a checkpoint", saves_every_step),
)
