"""DLC134: DistributedDataParallel below the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import literal
from dlc_lint.script.trainers import TRAINING_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

TAKE_BUCKETS = (
    "torch.nn.parallel.DistributedDataParallel", "accelerate.DistributedDataParallelKwargs",
    "accelerate.utils.DistributedDataParallelKwargs", "lightning.strategies.DDPStrategy",
)  # fmt: skip


def small_bucket(script: Script) -> Iterator[Hit]:
    """DLC134."""
    for names, keyword in ((TAKE_BUCKETS, "bucket_cap_mb"), (TRAINING_ARGUMENTS, "ddp_bucket_cap_mb")):
        for call in script.calls(*names):
            size = literal(script.argument(call, keyword))
            if isinstance(size, (int, float)) and 0 < size < 1:
                arg = script.arg(call, keyword)
                yield Hit(
                    arg,
                    f"{keyword}={size:g} is below 1 MB, with which torch.compile cannot split a model for "
                    "DistributedDataParallel; use 1 or more",
                    (script.replace(arg.value, "1"),),
                )


RULES = (Rule("DLC134", "gradient buckets below 1 MB", small_bucket, fixable=True),)
