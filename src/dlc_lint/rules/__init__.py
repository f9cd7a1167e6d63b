"""The rules, and the list of them; may import findings and script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlc_lint.rules.pytorch import RULES as PYTORCH_RULES
from dlc_lint.rules.tensorflow import RULES as TENSORFLOW_RULES

if TYPE_CHECKING:
    from dlc_lint.rules.rule import Rule

ALL: tuple[Rule, ...] = (*PYTORCH_RULES, *TENSORFLOW_RULES)
BY_CODE = {rule.code: rule for rule in ALL}
