"""DLC207: Keras' predict in a training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import attribute
from dlc_lint.script.training_steps import guarded, nearest_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Loop, Script

TRAINS = {"train_on_batch", "apply_gradients"}


def predict_in_step(script: Script) -> Iterator[Hit]:
    """Find DLC207."""
    own = any(one.name.value == "predict" for one in script.all(cst.FunctionDef))
    if own or not _imports_keras(script):
        return
    for call in script.all(cst.Call):
        if attribute(call.func) != "predict" or script.name(call.func):
            continue
        loop = nearest_loop(script, call)
        if loop is None or guarded(script, call, loop.body) or not _in_step(script, call, loop):
            continue
        model = script.code(call.func).rpartition(".")[0]
        yield Hit(
            call,
            f"{script.code(call.func)} in a training step builds an input pipeline and waits for the result, "
            f"each time; call {model}(x, training=False)",
        )


def _imports_keras(script: Script) -> bool:
    statements: list[cst.Import | cst.ImportFrom] = [*script.all(cst.Import), *script.all(cst.ImportFrom)]
    named = " ".join(script.module.code_for_node(one) for one in statements)
    return "keras" in named or "tensorflow" in named


def _in_step(script: Script, call: cst.Call, loop: Loop) -> bool:
    """Return whether each turn of the loop trains on one batch, or `fit` trains on what this call gave.

    `fit` and then `predict` in a loop is also how folds and epochs are done.
    """
    trained = [one for one in script.inside(loop.body, cst.Call) if nearest_loop(script, one) is loop]
    if any(attribute(one.func) in TRAINS for one in trained):
        return True
    results = {
        name.value
        for assign in script.inside(loop.body, cst.Assign)
        if any(one is assign for one in script.ancestors(call))
        for target in assign.targets
        for name in script.inside(target, cst.Name)
    }
    given = {
        name.value
        for one in trained
        if attribute(one.func) == "fit"
        for arg in one.args
        for name in script.inside(arg.value, cst.Name)
    }
    return bool(results & given)


RULES = (Rule("DLC207", "a training step calls predict", predict_in_step),)
