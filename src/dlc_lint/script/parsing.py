"""Reads a script, bytes to text to a tree, and its `# noqa` comments; the only place that reads files of the user."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from dlc_lint.findings import BadScriptError, Edit, Finding, Place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# The largest training scripts have 0.2.
MOST_BYTES = 4_000_000
# Libcst's parser ends the process at some thousands; Python says RecursionError before.
MOST_DEPTH = 1000

OPENING, CLOSING = "([{", ")]}"
# Python 3.12 and newer cut an f-string into tokens of its own; older ones make it a STRING.
FORMATTED = re.compile(r"(?i)r?[ft]r?['\"]")
STRING_STARTS, STRING_ENDS = (
    {tokenize.STRING, *(getattr(tokenize, f"{kind}_{end}", tokenize.STRING) for kind in ("FSTRING", "TSTRING"))}
    for end in ("START", "END")
)
WORDS = {"not", "if", "else", "lambda", "and", "or", "await", "in", "is", "for"}
UNUSED = "DLC001"
NOQA = re.compile(
    r"#\s*noqa(?P<colon>\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?(?=$|[\s,;#])", re.IGNORECASE
)
NOQA_CODE = re.compile(r"[A-Za-z]+[0-9]+")


def read(path: str) -> str:
    """Return the text of a file. Raises BadScriptError."""
    # Its JSON would be read as one expression of Python, in which nothing is ever found.
    if path.endswith(".ipynb"):
        remedy = f"jupyter nbconvert --to script {path}, and name what it writes"
        raise BadScriptError(path, 0, "a notebook: expected a Python script", remedy)
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except IsADirectoryError as error:
        raise BadScriptError(path, 0, "a folder without Python scripts", "name a script, or their folder") from error
    except OSError as error:
        raise BadScriptError(path, 0, f"{error.strerror}: expected a Python script", "check the path") from error
    if len(content) > MOST_BYTES:
        raise BadScriptError(path, 0, f"more than {MOST_BYTES} bytes: expected a script", "name the script itself")
    return decode(content, path)


def decode(content: bytes, path: str) -> str:
    """Return bytes as text, line ends as they are. Raises BadScriptError."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise BadScriptError(path, line, "a NUL byte: expected a Python script", "name the script itself")
    try:
        encoding = encoding_of(content)
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8" else encoding
        what = f"byte 0x{content[error.start]:02x} is not {name}"
        raise BadScriptError(path, line, f"{what}: expected a script in {name}", "save the file as UTF-8") from error
    except (SyntaxError, LookupError, UnicodeError) as error:
        # The codec "undefined" raises nothing better.
        remedy = "save the file as UTF-8, without a line that says another encoding"
        raise BadScriptError(path, 1, f"{error}: expected an encoding that Python knows", remedy) from error


def encoding_of(content: bytes) -> str:
    """Return the encoding as Python does: UTF-8, or that of the first two lines. Raises SyntaxError.

    The byte order mark stays in the text.
    """
    try:
        found, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:
        if b"coding" in b"".join(content.splitlines()[:2]):
            raise
        # A byte is not UTF-8: decoding says which.
        return "utf-8"
    return "utf-8" if found.startswith("utf-8") else found


def parse(text: str, path: str) -> cst.Module:
    """Return the tree of a text without byte order mark. Raises BadScriptError."""
    tokens, is_whole = _tokens(text)
    if _depth(tokens) > MOST_DEPTH:
        raise too_deep(path)
    # Python 3.12 and newer stop at what they refuse, such as the 200th bracket inside brackets: how deep the rest is
    # nobody knows, and libcst's parser may end the process.
    if not is_whole and (found := _of_python(text)):
        raise _syntax_error(path, *found)
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        found = _of_python(text) or (error.raw_line, " ".join(error.message.split())[:200])
        raise _syntax_error(path, *found) from error
    except RecursionError as error:
        raise too_deep(path) from error


def _syntax_error(path: str, line: int, message: str) -> BadScriptError:
    return BadScriptError(path, line, f"syntax error: {message}", f"python -m py_compile {path}")


def too_deep(path: str) -> BadScriptError:
    """Return the error for what only a program would write."""
    what = "an expression is too deep to be read: expected a script that a person wrote"
    return BadScriptError(path, 0, what, "split the longest expression, or leave this file out")


def _of_python(text: str) -> tuple[int, str] | None:
    """Return this Python's message, which is clearer than the parser's; None if it reads the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 0, error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _tokens(text: str) -> tuple[list[tokenize.TokenInfo], bool]:
    """Cut the text into tokens, as far as that is possible; tell whether it was possible to the end."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            found.append(token)
    except (tokenize.TokenError, SyntaxError):
        return found, False
    return found, True


def _depth(tokens: Sequence[tokenize.TokenInfo]) -> int:
    """Estimate the tree's depth: operators, words and pieces of text since the last comma, over all brackets."""
    chains, elifs, deepest, before = [0], 0, 0, 0
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            chains = [0]
        elif token.type == tokenize.OP and token.string in OPENING:
            chains[-1] += 1
            chains.append(0)
        elif token.type == tokenize.OP and token.string in CLOSING:
            chains[-1:] = [] if len(chains) > 1 else [0]
        elif token.type == tokenize.OP and token.string in ",;":
            chains[-1] = 0
        elif (
            token.type == tokenize.OP
            or token.string in WORDS
            or (token.type in STRING_STARTS and before in STRING_ENDS)
        ):
            chains[-1] += 1
        if token.type == tokenize.STRING and FORMATTED.match(token.string):
            deepest = max(deepest, sum(chains) + _depth(_tokens(_fields(token.string))[0]))
        elifs += token.string == "elif"
        before = token.type if token.type not in (tokenize.NL, tokenize.COMMENT) else before
        deepest = max(deepest, sum(chains), elifs)
        if deepest > MOST_DEPTH:
            break
    return deepest


def _fields(text: str) -> str:
    """Return the expressions of an f-string, with commas in place of its words."""
    kept, level = [], 0
    for character in text:
        level += (character == "{") - (character == "}" and level > 0)
        kept.append(character if level else ",")
    return "".join(kept)


def comments(text: str) -> list[tuple[int, int, str]]:
    """Return each comment with its line (from 1) and column (from 0)."""
    return [(*token.start, token.string) for token in _tokens(text)[0] if token.type == tokenize.COMMENT]


class Noqa(NamedTuple):
    """One comment. Without codes it silences every finding of its line."""

    line: int
    column: int
    text: str
    codes: tuple[str, ...]

    def silences(self, code: str) -> bool:
        """Return whether it says so for this code."""
        return not self.codes or code in self.codes


def read_noqa(comments: Sequence[tuple[int, int, str]]) -> list[Noqa]:
    """Return the directives among a script's comments."""
    found = []
    for line, column, text in comments:
        match = NOQA.search(text)
        if match:
            codes = tuple(code.upper() for code in NOQA_CODE.findall(match["codes"] or ""))
            found.append(Noqa(line, column + match.start(), match[0], codes))
    return found


def silence(findings: Sequence[Finding], directives: Sequence[Noqa]) -> list[Finding]:
    """Return the findings that stay."""
    return [finding for finding in findings if not any(_meets(one, finding) for one in directives)]


def unused_noqa(
    findings: Sequence[Finding], directives: Sequence[Noqa], checked: Collection[str], path: str
) -> list[Finding]:
    """Return a finding for each comment that names codes of checked rules and silences nothing."""
    found = []
    for one in directives:
        used = {finding.code for finding in findings if _meets(one, finding)}
        idle = [code for code in one.codes if code in checked and code not in used]
        found += [_unused_finding(one, idle, path)] if idle else []
    return found


def _meets(one: Noqa, finding: Finding) -> bool:
    return one.line in _lines(finding.place) and one.silences(finding.code)


def _lines(place: Place) -> tuple[int, int]:
    return place.line, place.end_line


def _unused_finding(one: Noqa, idle: list[str], path: str) -> Finding:
    kept = [code for code in one.codes if code not in idle]
    place = Place(one.line, one.column, one.line, one.column + len(one.text))
    text = f"# noqa: {', '.join(kept)}" if kept else ""
    message = f"noqa: {', '.join(idle)} silences nothing here; leave it out"
    return Finding(path, place, UNUSED, message, (Edit(place, text),))
