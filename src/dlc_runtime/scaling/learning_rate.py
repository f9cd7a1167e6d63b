"""The learning rate of a job with another batch, and its warm-up as a factor for LambdaLR and a schedule of Keras."""

from __future__ import annotations

from math import ceil, isfinite, sqrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACKAGE = "dlc_runtime"


class Warmup:
    """A factor of the full learning rate for each optimizer step: from `start` in a line to 1 at step `steps`.

    After a batch grew, `start = base_lr / new_lr` begins with the rate of the old batch, and `steps` are those of about
    five epochs (Goyal et al., 2017, section 2.2); `start = 0` is the warm-up of most transformers.

        torch.optim.lr_scheduler.LambdaLR(optimizer, Warmup(500, start=0.125))   # one scheduler.step() a step

    LambdaLR saves it in its state. The factor of a schedule of your own is `then`: it is asked for each later step.
    """

    def __init__(self, steps: int, start: float = 0.0, then: Any = None) -> None:
        if steps < 0 or int(steps) != steps:
            raise ValueError(f"steps: expected a whole number from 0 on, found {steps!r}")
        if not 0 <= start <= 1:
            raise ValueError(
                f"start: expected a factor from 0 to 1, found {start!r}; for a batch that shrank there is no warm-up"
            )
        self.steps, self.start, self.then = int(steps), float(start), then

    def __call__(self, step: int) -> float:
        """Return the factor of the step with this number; the first is 0."""
        if step < self.steps:
            return self.start + (1.0 - self.start) * step / self.steps
        return float(self.then(step)) if self.then is not None else 1.0


def keras_warmup(learning_rate: float, steps: int, start: float = 0.0) -> Any:
    """Return the same as a LearningRateSchedule: `optimizer = SGD(keras_warmup(0.8, 500, start=0.125))`.

    `learning_rate` is the full one. A model that was saved with it loads if this module is imported and
    `keras_warmup` was called once, since Keras is not imported before.
    """
    return _schedule()(float(learning_rate), Warmup(steps, start).steps, float(start))


_classes: dict[int, Any] = {}


def _schedule() -> Any:
    """Return the class, for the Keras that `tf.keras` is."""
    import tensorflow

    keras: Any = tensorflow.keras
    base = keras.optimizers.schedules.LearningRateSchedule
    if id(base) not in _classes:
        _classes[id(base)] = keras.utils.register_keras_serializable(PACKAGE)(_derived(base, tensorflow))
    return _classes[id(base)]


def _derived(base: Any, tensorflow: Any) -> Any:
    class WarmupSchedule(base):  # type: ignore[misc]
        """Grows from `start` times the rate in a line to the rate."""

        def __init__(self, learning_rate: float, steps: int, start: float = 0.0) -> None:
            self.learning_rate, self.steps, self.start = learning_rate, steps, start

        def __call__(self, step: Any) -> Any:
            done = tensorflow.minimum(tensorflow.cast(step, "float32") / max(self.steps, 1), 1.0)
            done = done if self.steps else tensorflow.ones_like(done)
            return self.learning_rate * (self.start + (1.0 - self.start) * done)

        def get_config(self) -> dict[str, Any]:
            return {"learning_rate": self.learning_rate, "steps": self.steps, "start": self.start}

    return WarmupSchedule


LINEAR, SQUARE_ROOT = "linear", "sqrt"
RULES = (LINEAR, SQUARE_ROOT)


def scale_learning_rate(base_lr: float, base_batch: int, new_batch: int, rule: str = LINEAR) -> float:
    """Return the rate for `new_batch` samples of a job that trains well with `base_lr` and `base_batch` samples.

    With k = new_batch / base_batch:

    - `linear`: base_lr * k. For SGD, with a warm-up (Goyal et al., 2017, arXiv:1706.02677).
    - `sqrt`: base_lr * sqrt(k), which keeps the variance of a step (Krizhevsky, 2014, arXiv:1404.5997); for Adam and
      its relatives (Malladi et al., 2022, arXiv:2205.10287).

    Both are the rules of the SageMaker Training Compiler's guide for the larger batch that fits a compiled model.
    Neither holds for any k: if the loss of the first steps grows, warm up longer or take a smaller batch.
    """
    _require(isfinite(base_lr) and base_lr > 0, "base_lr", "a number above 0", base_lr)
    ratio = _ratio(base_batch, new_batch)
    _require(rule in RULES, "rule", " or ".join(RULES), rule)
    return base_lr * (ratio if rule == LINEAR else sqrt(ratio))


def scale_steps(base_steps: int, base_batch: int, new_batch: int) -> int:
    """Return steps that see as many samples as `base_steps` did with the old batch: of a training, or a warm-up."""
    _require(base_steps >= 0, "base_steps", "a number from 0 on", base_steps)
    return ceil(base_steps / _ratio(base_batch, new_batch))


def _ratio(base_batch: int, new_batch: int) -> float:
    for name, value in (("base_batch", base_batch), ("new_batch", new_batch)):
        _require(int(value) == value and value > 0, name, "a whole number above 0", value)
    return new_batch / base_batch


def _require(right: bool, name: str, expected: str, found: object) -> None:
    if not right:
        raise ValueError(f"{name}: expected {expected}, found {found!r}")
