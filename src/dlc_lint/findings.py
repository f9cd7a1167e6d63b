"""What a rule finds, how the text would have to change, and what a run gives; values only. Imports nothing of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import libcst as cst

# DLC1xx are rules for PyTorch, DLC2xx for TensorFlow
FRAMEWORKS = {"1": "pytorch", "2": "tensorflow"}


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
    """What a rule yields: the node, what is wrong with it and what to do; edits only if the fix is safe."""

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


class BadScriptError(Exception):
    """A script that does not exist, is no UTF-8 text, or has a syntax error."""

    def __init__(self, path: str, line: int, message: str, remedy: str) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.message}\n  remedy: {self.remedy}"


class Result(NamedTuple):
    """`fixed` are findings that --fix has done away with, `notes` what another tool could not do."""

    scripts: int
    findings: tuple[Finding, ...]
    errors: tuple[BadScriptError, ...]
    fixed: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
