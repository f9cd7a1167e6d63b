"""What a cause of a recompilation means to the user: its kind, one short line, and the remedy."""

from __future__ import annotations

import re
from typing import NamedTuple

SHAPE = (
    "pad to one length (padding='max_length'), drop the last smaller batch (drop_last=True), or use few bucket lengths"
)
NUMBER = "do not change this number in the model, or keep it in a tensor (register_buffer)"
GROWING = "do not collect things in lists or dictionaries inside the model or its hooks"
MODE = "train and evaluate in longer stretches, each in one mode"
HOOK = "register hooks before training, and leave them"
OTHER = "run with DLC_COMPILER_DEBUG=1 and read the guards"


class Cause(NamedTuple):
    kind: str
    text: str
    remedy: str


KINDS = (
    ("hook", re.compile(r"_hooks\b"), HOOK),
    (
        "shape",
        re.compile(r"size mismatch at index|stride mismatch|rank mismatch|\.size\(\)|\.shape\b|Ne\(|Eq\("),
        SHAPE,
    ),
    ("mode", re.compile(r"grad_mode|GLOBAL_STATE|\.training\b|requires_grad|inference"), MODE),
    ("collection", re.compile(r"\blen\(|^\s*(\d+/\d+:\s*)?not [A-Z]\["), GROWING),
    ("number", re.compile(r"==\s*-?\d|integer attributes|float"), NUMBER),
)


def cause_of(reason: str) -> Cause:
    """`reason` is Dynamo's: "1/0: tensor 'x' size mismatch at index 1. expected 16, actual 24  # source"."""
    guard = reason.split("\n")[0].split("(HINT:")[0]
    condition = guard.partition("#")[0].strip() or guard.strip()
    text = re.sub(r"^\d+/\d+:\s*", "", condition)
    for kind, pattern, remedy in KINDS:
        if pattern.search(condition):
            return Cause(kind, text, remedy)
    return Cause("other", text, OTHER)
