"""Rules for TensorFlow, DLC201 to DLC299, a file for each subject; may import findings and script."""

from __future__ import annotations

from dlc_lint.rules.tensorflow import inputs, jit, predicting, steps

RULES = (*steps.RULES, *predicting.RULES, *inputs.RULES, *jit.RULES)
