"""What a rule finds, and how the text would have to change; values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import libcst as cst


class Place(NamedTuple):
    """From the first character to behind the last one; lines count from 1, columns from 0, in code points."""

    line: int
    column: int
    end_line: int
    end_column: int


class Edit(NamedTuple):
    """Put `text` where the characters of `place` are."""

    place: Place
    text: str


class Hit(NamedTuple):
    """What a rule yields: the node, what is wrong with it and what to do; edits only where the fix is safe."""

    node: cst.CSTNode
    message: str
    edits: tuple[Edit, ...] = ()


class Finding(NamedTuple):
    """A hit in a file. `tool` says whose rule it is: ours, or TorchFix's."""

    path: str
    place: Place
    code: str
    message: str
    edits: tuple[Edit, ...] = ()
    tool: str = "dlc"
