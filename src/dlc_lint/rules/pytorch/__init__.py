"""Rules for PyTorch, DLC101 to DLC199, a file for each subject; may import findings and script."""

from __future__ import annotations

from dlc_lint.rules.pytorch import kept_graphs, recompiling, shapes, tensor_reads, training_loop, xla

RULES = (
    *shapes.RULES, *tensor_reads.RULES, *training_loop.RULES, *kept_graphs.RULES, *xla.RULES, *recompiling.RULES,
)  # fmt: skip
