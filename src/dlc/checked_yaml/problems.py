"""Problems in the buildspec: where, what was expected, what was found. All of them become one report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from dlc.core.errors import DlcError, SpecError, UsageError

T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Mark:
    """A place in an input: a file with line and column from 1, or a command-line option (line 0)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong, as one line of the report."""

    mark: Mark
    path: str
    expected: str
    found: str = ""
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.mark}: {self.path}" if self.path else str(self.mark)
        found = f", found {self.found}" if self.found else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}: expected {self.expected}{found}{hint}"


def did_you_mean(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return `did you mean 'x'?` for the nearest known word; empty if none is near (`likeness`: 0 to 1)."""
    near = difflib.get_close_matches(word, list(known), 1, likeness)
    return f"did you mean {near[0]!r}?" if near else ""


def require_value(value: T | None, problems: Iterable[Problem]) -> T:
    """Return the value. Raises the report of the problems, at least one of which there is if there is no value."""
    raise_report(problems)
    if value is None:
        raise SpecError("a value that has no problems could not be read")
    return value


def raise_report(problems: Iterable[Problem]) -> None:
    """Raise one error holding every problem once, in file order; return when there is none.

    Raises UsageError when all of them come from the command line, else SpecError.
    """
    ordered = sorted(set(problems))
    if not ordered:
        return
    kind: type[DlcError] = SpecError if any(problem.mark.line for problem in ordered) else UsageError
    raise kind("\n".join(str(problem) for problem in ordered))
