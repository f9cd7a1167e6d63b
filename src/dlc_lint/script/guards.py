"""Whether code runs each time that the code around it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.script import attribute

if TYPE_CHECKING:
    from dlc_lint.script.script import Script

# Written around the body of a step or of `forward` without a choice: they are true while it trains.
CALLS_TRUE_IN_TRAINING = {"is_grad_enabled"}


def guarded(script: Script, node: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Whether an `if`, `else`, `except`, `and`/`or` or `match` between the two decides about it."""
    below: cst.CSTNode = node
    for one in script.ancestors(node):
        if one is around:
            return False
        if _decides(one, below):
            return True
        below = one
    return False


def _decides(one: cst.CSTNode, below: cst.CSTNode) -> bool:
    if isinstance(one, cst.If):
        return below is not one.test and not (below is one.body and _true_in_training(one.test))
    if isinstance(one, cst.IfExp):
        return below is not one.test
    if isinstance(one, cst.BooleanOperation):
        return below is one.right
    return isinstance(one, (cst.ExceptHandler, cst.Match, cst.Finally, cst.Assert))


def _true_in_training(test: cst.BaseExpression) -> bool:
    """`if self.training`, `if labels is not None`, `if True`."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        name = test.left.value if isinstance(test.left, cst.Name) else ""
        wanted = name in ("labels", "targets", "target", "label", "y")
        none = isinstance(only.comparator, cst.Name) and only.comparator.value == "None"
        return wanted and none and isinstance(only.operator, cst.IsNot)
    if isinstance(test, cst.Call):
        return attribute(test.func) in CALLS_TRUE_IN_TRAINING
    return attribute(test) == "training" or (isinstance(test, cst.Name) and test.value == "True")
