"""DLC221 to DLC226: what XLA cannot compile, or compiles to something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.tf_functions import TF_FUNCTION, enclosing, graph_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

COMMUNICATES = {"all_reduce", "merge_call", "all_gather", "batch_reduce", "reduce_to", "batch_reduce_to"}
OF_STRATEGY = {"reduce", "gather", "run"}
RANDOM = {
    "tensorflow.random.normal", "tensorflow.random.uniform", "tensorflow.random.truncated_normal",
    "tensorflow.random.gamma", "tensorflow.random.poisson", "tensorflow.random.shuffle",
    "tensorflow.random.categorical", "tensorflow.nn.dropout",
}  # fmt: skip
VALUE_DEPENDENT = {
    "tensorflow.boolean_mask",
    "tensorflow.unique",
    "tensorflow.unique_with_counts",
    "tensorflow.ragged.boolean_mask",
    "tensorflow.sparse.retain",
}
HOST_ONLY = {"tensorflow.py_function", "tensorflow.numpy_function"}


def _in_jit(script: Script) -> Iterator[cst.Call]:
    graph = graph_functions(script)
    for call in script.all(cst.Call):
        around = enclosing(script, call, graph)
        if around is not None and around.jit and not isinstance(script.parent(call), cst.Decorator):
            yield call


def communication(script: Script) -> Iterator[Hit]:
    """Find DLC221."""
    for call in _in_jit(script):
        name, full = attribute(call.func), script.name(call.func)
        owner = script.code(call.func.value).lower() if isinstance(call.func, cst.Attribute) else ""
        horovod = full.startswith("horovod.tensorflow.") and name not in ("rank", "size", "local_rank", "local_size")
        strategy = name in OF_STRATEGY and owner.endswith("strategy")
        if horovod or strategy or (name in COMMUNICATES and not full):
            yield Hit(
                call,
                f"{script.code(call.func)} talks to other replicas within the compiled step; compile "
                "the gradients alone, and exchange them outside",
            )


def unbounded_loop(script: Script) -> Iterator[Hit]:
    """Find DLC222."""
    for call in _in_jit(script):
        if (
            script.is_one_of(call.func, {"tensorflow.while_loop"})
            and script.argument(call, "maximum_iterations", 6) is None
            and not script.has_stars(call)
        ):
            yield Hit(call, "XLA takes no gradient through a loop without a bound; give maximum_iterations")


def growing_array(script: Script) -> Iterator[Hit]:
    """Find DLC223."""
    for call in _in_jit(script):
        if not script.is_one_of(call.func, {"tensorflow.TensorArray"}) or script.has_stars(call):
            continue
        size = script.argument(call, "size", 1)
        grows = script.argument(call, "dynamic_size", 2)
        if literal(grows) is True or size is None:
            yield Hit(call, "XLA has no TensorArray that grows; give its size, without dynamic_size")


def seeded_random(script: Script) -> Iterator[Hit]:
    """Find DLC224."""
    for call in _in_jit(script):
        seed = script.argument(call, "seed")
        if script.is_one_of(call.func, RANDOM) and seed is not None and literal(seed) is not None:
            yield Hit(
                script.arg(call, "seed"),
                "XLA ignores this seed, so runs differ; use tf.random.stateless_*, which takes the seed of each call",
            )


def value_dependent_shape(script: Script) -> Iterator[Hit]:
    """Find DLC225."""
    for call in _in_jit(script):
        if is_value_dependent(script, call):
            yield Hit(
                call,
                f"{script.code(call.func)} gives a shape that depends on values, which XLA cannot "
                "compile; use tf.where with three arguments, or multiply by the mask",
            )
        elif script.is_one_of(call.func, HOST_ONLY):
            yield Hit(
                call,
                f"{script.code(call.func)} runs Python, which XLA cannot compile; do it in the data "
                "set's map, before the step",
            )


def is_value_dependent(script: Script, call: cst.Call) -> bool:
    """Return whether the result has as many elements as values say."""
    one_argument = script.is_one_of(call.func, {"tensorflow.where"}) and len(call.args) == 1
    return one_argument or script.is_one_of(call.func, VALUE_DEPENDENT)


def old_name(script: Script) -> Iterator[Hit]:
    """Find DLC226."""
    for call in script.calls(TF_FUNCTION):
        if script.argument(call, "experimental_compile") is not None:
            arg = script.arg(call, "experimental_compile")
            yield Hit(
                arg,
                "experimental_compile is the old name of jit_compile; write jit_compile",
                (script.replace(arg.keyword or arg, "jit_compile"),),
            )


RULES = (
    Rule("DLC221", "communication within the compiled step", communication),
    Rule("DLC222", "a loop without a bound in compiled code", unbounded_loop),
    Rule("DLC223", "a TensorArray that grows in compiled code", growing_array),
    Rule("DLC224", "a seed that XLA ignores", seeded_random),
    Rule("DLC225", "an operation that XLA cannot compile", value_dependent_shape),
    Rule("DLC226", "the old name of jit_compile", old_name, fixable=True),
)
