"""Rules for PyTorch, DLC101 to DLC199, a file for each subject; may import base and script."""

from __future__ import annotations

from dlc_lint.rules.pytorch import (
    distributed,
    every_step,
    impure,
    kept_graphs,
    loading,
    reading,
    recompiling,
    shapes,
    xla_devices,
    xla_steps,
)

RULES = (
    *shapes.RULES, *reading.RULES, *every_step.RULES, *kept_graphs.RULES, *xla_devices.RULES, *xla_steps.RULES,
    *recompiling.RULES, *impure.RULES, *distributed.RULES, *loading.RULES,
)  # fmt: skip
