"""Prints a line of docs/measurements.md's table for each reproducer, with the torch at hand; words choose some."""

from __future__ import annotations

import sys

import torch

from reproducers.case import REPRODUCERS
from reproducers.judge import RAISES, find_wrong


def verdict(wrong: list[str]) -> str:
    return "raises" if wrong and wrong[0].startswith(RAISES) else "wrong" if wrong else "right"


torch.set_num_threads(1)
print(f"| issue | wrong is | {torch.__version__} |\n|---|---|---|", flush=True)
for each in REPRODUCERS:
    if not sys.argv[1:] or any(word in each.name for word in sys.argv[1:]):
        print(f"| {each.issue} | {each.wrong} | {verdict(find_wrong(each.make))} |", flush=True)
