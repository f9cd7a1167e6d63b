"""Reads a script: bytes to text to a tree; the only place that reads files of the user."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from pathlib import Path

import libcst as cst

from dlc_lint.base.errors import BadScriptError

MOST_BYTES = 4_000_000  # the largest training scripts have 0.2
MOST_BRACKETS = 100  # CPython allows 200; libcst's parser crashes the process at some thousands

OPENING, CLOSING = "([{", ")]}"


def read(path: str) -> str:
    """The text of a file. Raises BadScriptError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadScriptError(path, 0, f"{error.strerror}: expected a Python script", "check the path") from error
    if len(content) > MOST_BYTES:
        raise BadScriptError(path, 0, f"more than {MOST_BYTES} bytes: expected a script", "name the script itself")
    return decode(content, path)


def decode(content: bytes, path: str) -> str:
    """Bytes as text, line ends as they are. Raises BadScriptError."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise BadScriptError(path, line, "a NUL byte: expected a Python script", "name the script itself")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise BadScriptError(path, line, f"{what}: expected a script in UTF-8", "save the file as UTF-8") from error


def parse(text: str, path: str) -> cst.Module:
    """The tree of a text without byte order mark. Raises BadScriptError."""
    if _nesting(text) > MOST_BRACKETS:
        raise too_deep(path)
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        line, message = _of_python(text) or (error.raw_line, " ".join(error.message.split())[:200])
        remedy = f"python -m py_compile {path}"
        raise BadScriptError(path, line, f"syntax error: {message}", remedy) from error
    except RecursionError as error:
        raise too_deep(path) from error


def too_deep(path: str) -> BadScriptError:
    """For what only a program would write."""
    what = "an expression is too deep to be read: expected a script that a person wrote"
    return BadScriptError(path, 0, what, "split the longest expression, or leave this file out")


def _of_python(text: str) -> tuple[int, str] | None:
    """What this Python says of it, which is clearer than the parser's words; None where it reads the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 0, error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """As far as the text can be cut into tokens."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            found.append(token)
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser says what is wrong
    return found


def _nesting(text: str) -> int:
    depth = deepest = 0
    for token in _tokens(text):
        if token.type == tokenize.OP:
            depth += (token.string in OPENING) - (token.string in CLOSING)
            deepest = max(deepest, depth)
    return deepest


def comments(text: str) -> list[tuple[int, int, str]]:
    """Each comment with its line (from 1) and column (from 0)."""
    return [(*token.start, token.string) for token in _tokens(text) if token.type == tokenize.COMMENT]
