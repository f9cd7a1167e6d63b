"""The tf.data pipelines of a TensorFlow script, and which of them it trains from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.call_graph import names_reached
from dlc_lint.script.script import attribute
from dlc_lint.script.training_steps import calls_of, nearest_loop

if TYPE_CHECKING:
    from dlc_lint.script.script import Script

WRAPPERS = {"enumerate", "zip", "iter", "tqdm.tqdm", "tqdm"}
FITS = ("fit", "fit_generator")
DISTRIBUTES = "experimental_distribute_dataset"
# Parts of a word.
FOR_EVALUATION = ("eval", "valid", "test", "predict")
# Whole words.
EVALUATION = {"val", "vals", "valset", "dev", "devset", "held", "holdout", "infer", "inference"}
# For looking at some examples.
SAMPLES = {"unbatch", "take"}
DATA = {"dataset", "ds", "batches", "loader", "dataloader"}
CHANGES_WEIGHTS = {"GradientTape", "apply_gradients", "minimize", "train_on_batch", "assign_sub"}

# That hand a data set on.
MOST_FUNCTIONS = 5


def pipeline(script: Script, node: cst.CSTNode | None) -> list[cst.Call]:
    """Return a chain of method calls, the last first, down to the one that makes the tf.data.Dataset; else []."""
    calls: list[cst.Call] = []
    for _ in range(30):
        if isinstance(node, cst.Name):
            node = _bound_before(script, node)
        if not isinstance(node, cst.Call):
            return []
        calls.append(node)
        if script.name(node.func).startswith("tensorflow.data."):
            return calls
        node = node.func.value if isinstance(node.func, cst.Attribute) else None
    return []


def _bound_before(script: Script, name: cst.Name) -> cst.CSTNode | None:
    """Return what `dataset` is in `dataset = dataset.map(...)`, which is bound again and again."""
    here = script.place(name)[:2]
    earlier = [one for one in script.values(name) if one is not None and script.place(one)[2:] < here]
    return earlier[-1] if earlier else None


def is_dataset(script: Script, node: cst.CSTNode | None) -> bool:
    """Return whether a loop over it gets batches: a tf.data.Dataset, or what the script calls a data set."""
    if isinstance(node, cst.Call) and script.is_one_of(node.func, WRAPPERS) and node.args:
        return any(is_dataset(script, arg.value) for arg in node.args)
    if pipeline(script, node):
        return True
    name = node.value if isinstance(node, cst.Name) else attribute(node)
    return any(word in DATA for word in words(name)[-1:])


def words(name: str) -> list[str]:
    """Split a name: trainDataset and train_dataset give train, dataset."""
    return [one for one in re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) if one]


def for_evaluation(script: Script, call: cst.Call) -> bool:
    """Return whether its name, the function around it or a method after it says that nothing trains from it."""
    named = [word for name in (*_targets(script, call), *_around(script, call)) for word in words(name)]
    return any(word in EVALUATION or word in SAMPLES or any(one in word for one in FOR_EVALUATION) for word in named)


def _targets(script: Script, call: cst.Call) -> list[str]:
    """Return the names that the chain of this call is bound to."""
    assign = _statement(script, call)
    return [script.code(one.target) for one in assign.targets] if isinstance(assign, cst.Assign) else []


def _statement(script: Script, call: cst.Call) -> cst.CSTNode | None:
    return script.around(call, cst.Assign, cst.Return, cst.For, cst.FunctionDef)


def _around(script: Script, call: cst.Call) -> list[str]:
    """Return the methods that follow in the chain, what it is given to, and the function that it is in."""
    found = []
    for one in script.ancestors(call):
        if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute):
            found.append(one.func.attr.value)
        if isinstance(one, cst.FunctionDef):
            return [*found, one.name.value]
    return found


def trained_from(script: Script, call: cst.Call) -> bool:
    """Return whether this pipeline is one to train from, by its name or by what the script does with it."""
    names = [attribute(one.func) for one in pipeline(script, call)]
    if not names or "repeat" in names or for_evaluation(script, call):
        return False
    statement = _statement(script, call)
    if _ends_earlier(script, statement):
        return False
    if any("train" in name.lower() for name in _targets(script, call)):
        return True
    if isinstance(statement, cst.Return):
        return _returned(script, call, MOST_FUNCTIONS)
    return _used(script, call) or any(_feeds(script, one) for one in _uses(script, statement))


def _ends_earlier(script: Script, statement: cst.CSTNode | None) -> bool:
    """Recognise `fit(data, steps_per_epoch=100)`: an epoch is over before the last batch."""
    given = [script.parent(script.parent(one) or one) for one in _uses(script, statement)]
    fits = [one for one in given if isinstance(one, cst.Call) and attribute(one.func) in FITS]
    later = [one for one in fits if statement is not None and script.before(statement, one)]
    return bool(later) and script.argument(later[0], "steps_per_epoch") is not None


def _returned(script: Script, call: cst.CSTNode, most: int) -> bool:
    """Judge by what is done with the function's result; it counts if no call of the function is in the script."""
    function = script.function(call)
    calls = calls_of(script, function) if function is not None else []
    return not calls or any(not for_evaluation(script, one) and _leads_to_training(script, one, most) for one in calls)


def _leads_to_training(script: Script, call: cst.Call, most: int) -> bool:
    targets = _targets(script, call)
    if any("train" in name.lower() for name in targets):
        return True
    # Given on at once.
    if not targets:
        above = script.parent(call)
        return not (isinstance(above, cst.Arg) and above.keyword is not None and "val" in above.keyword.value)
    return any(_feeds(script, one, most - 1) for one in _uses(script, _statement(script, call)))


def _uses(script: Script, statement: cst.CSTNode | None) -> list[cst.Name]:
    """Return the places where a statement's names are read; those of a function only in it."""
    if not isinstance(statement, cst.Assign):
        return []
    here = script.function(statement)
    bound = {id(name) for one in statement.targets for name in script.inside(one, cst.Name)}
    names = {name.value for one in statement.targets for name in script.inside(one, cst.Name)}
    read = [one for one in script.all(cst.Name) if one.value in names and id(one) not in bound]
    return [one for one in read if here is None or script.function(one) is here]


def _used(script: Script, call: cst.Call) -> bool:
    """Judge the whole chain, as in `fit(data.batch(32))`, `for x in data.batch(32)`."""
    top: cst.CSTNode = call
    while True:
        above = script.parent(top)
        follows = isinstance(above, cst.Call) and above.func is top
        if not (follows or (isinstance(above, cst.Attribute) and above.value is top)):
            return _feeds(script, top)
        top = above  # type: ignore[assignment]


def _feeds(script: Script, use: cst.CSTNode, most: int = MOST_FUNCTIONS) -> bool:
    """Return whether a loop that trains runs over it, or `fit` trains from it."""
    above = script.parent(use)
    if isinstance(above, cst.For):
        return above.iter is use and changes_weights(script, above.body) and not _leaves(script, above)
    if isinstance(above, cst.Return):
        return most > 0 and _returned(script, use, most)
    call = script.parent(above) if isinstance(above, cst.Arg) else None
    if not isinstance(above, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if script.is_one_of(call.func, WRAPPERS) or attribute(call.func) == "tqdm":
        return _feeds(script, call, most)
    if attribute(call.func) == DISTRIBUTES:
        return not for_evaluation(script, call)
    keyword = above.keyword.value if above.keyword is not None else ""
    return attribute(call.func) in FITS and keyword in ("", "x")


def _leaves(script: Script, loop: cst.For) -> bool:
    """Recognise `if step > 10: break`: perhaps the last batch never comes."""
    return any(nearest_loop(script, one) is loop for one in script.inside(loop.body, cst.Break))


def changes_weights(script: Script, node: cst.CSTNode) -> bool:
    """Return whether code trains: it, or a function of the script that it names, has a tape or changes weights."""
    return bool(names_reached(script, node) & CHANGES_WEIGHTS)
