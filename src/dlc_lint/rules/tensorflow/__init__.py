"""Rules for TensorFlow, DLC201 to DLC299, a file for each subject; may import base and script."""

from __future__ import annotations

from dlc_lint.rules.tensorflow import inputs, jit, steps

RULES = (*steps.RULES, *inputs.RULES, *jit.RULES)
