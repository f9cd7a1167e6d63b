"""The one error of the linter: a file that cannot be checked at all."""

from __future__ import annotations


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
