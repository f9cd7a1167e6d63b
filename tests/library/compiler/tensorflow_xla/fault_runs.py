"""Faults that scripts/faults.py puts into compiled steps, and which of them dlc refused."""

from __future__ import annotations

from typing import Any

from tensorflow_runs import Runner
from torch_runs import Run

# A wrong gradient, of each kind that a norm or a loss may hide.
GRADIENTS = ("zero", "half", "double", "flipped", "permuted", "same_norm", "one_element", "longer")
OTHERS = ("buffers", "outputs")
# The first compiled steps are right.
LATER = ("shapes", "later")
# 1 % is below what 16 bits tell.
UNSEEN_IN_16_BITS = {"longer", "outputs"}


def refused(run: Run) -> set[str]:
    """Return the cases whose way was refused because it differs."""
    found = {entry["module"]: entry["reason"] for entry in run.report["eager"]}
    return {module.replace("_", ":", 1) for module, reason in found.items() if "it differs from eager by" in reason}


def losses(run: Run) -> dict[str, Any]:
    return dict(run.results[0]["by_case"])


def train(runner: Runner, cases: list[str], compiler: str | None = None, **environ: str) -> Run:
    return runner.run("faults.py", *cases, compiler=compiler, environ=environ)
