"""Learning rates for other batch sizes, warm-up, and the largest batch that fits; may import the profile's memory.

    from dlc_runtime.scaling import Warmup, scale_learning_rate

Nothing here imports a framework before it is used.
"""

from __future__ import annotations

from dlc_runtime.scaling.batch_search import LargestBatch, TrialError, largest_batch
from dlc_runtime.scaling.learning_rate import (
    LINEAR,
    RULES,
    SQUARE_ROOT,
    Warmup,
    keras_warmup,
    scale_learning_rate,
    scale_steps,
)

__all__ = [
    "LINEAR", "RULES", "SQUARE_ROOT", "LargestBatch", "TrialError", "Warmup", "keras_warmup", "largest_batch",
    "scale_learning_rate", "scale_steps",
]  # fmt: skip
