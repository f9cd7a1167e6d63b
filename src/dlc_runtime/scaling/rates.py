"""The learning rate and the steps of a job whose batch has another size. Pure.

A batch here is what one optimizer step sees: samples of one process, times processes, times steps of gradient
accumulation. Only the ratio of two batches counts, so where the other two stay, the samples of one process do.
"""

from __future__ import annotations

from math import ceil, isfinite, sqrt

LINEAR, SQUARE_ROOT = "linear", "sqrt"
RULES = (LINEAR, SQUARE_ROOT)


def scale_learning_rate(base_lr: float, base_batch: int, new_batch: int, rule: str = LINEAR) -> float:
    """The learning rate for `new_batch` samples of a job that trains well with `base_lr` and `base_batch` samples.

    With k = new_batch / base_batch:

    - `linear`: base_lr * k. For SGD, with a warm-up (Goyal et al., 2017, arXiv:1706.02677).
    - `sqrt`: base_lr * sqrt(k), which keeps the variance of a step (Krizhevsky, 2014, arXiv:1404.5997); for Adam and
      its relatives (Malladi et al., 2022, arXiv:2205.10287).

    Both are the rules of the SageMaker Training Compiler's guide for the larger batch that fits a compiled model.
    Neither holds for any k: where the loss of the first steps grows, warm up longer or take a smaller batch.
    """
    _require(isfinite(base_lr) and base_lr > 0, "base_lr", "a number above 0", base_lr)
    ratio = _ratio(base_batch, new_batch)
    _require(rule in RULES, "rule", " or ".join(RULES), rule)
    return base_lr * (ratio if rule == LINEAR else sqrt(ratio))


def scale_steps(base_steps: int, base_batch: int, new_batch: int) -> int:
    """Optimizer steps that see as many samples as `base_steps` did with the old batch: of a training, or a warm-up."""
    _require(base_steps >= 0, "base_steps", "a number from 0 on", base_steps)
    return ceil(base_steps / _ratio(base_batch, new_batch))


def _ratio(base_batch: int, new_batch: int) -> float:
    for name, value in (("base_batch", base_batch), ("new_batch", new_batch)):
        _require(int(value) == value and value > 0, name, "a whole number above 0", value)
    return new_batch / base_batch


def _require(right: bool, name: str, expected: str, found: object) -> None:
    if not right:
        raise ValueError(f"{name}: expected {expected}, found {found!r}")
