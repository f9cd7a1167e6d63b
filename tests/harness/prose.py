"""Counts of the prose and the names in source files: what docs/style.md asks for, as far as it can be counted."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# First words of a docstring that tells what something is, not what it does
NO_VERBS = frozenset(
    re.findall(
        r"\w+",
        "a an the what who whose which where when how why whether one ones in on of for from with without by at as to "
        "after before between below above beside each every all both none no not nobody nothing somebody something it "
        "its that this those these if because only also and or but two three seconds bytes true false",
    )
)
WORD = r"[A-Za-z']+"
# Words that stand for a noun, so that the reader looks for it in the sentence before; None is Python's
FOR_NOUNS = re.compile(r"\b(?:[Oo]nes?|none|[Ww]hat|[Tt]hose|[Nn]either|[Ee]ither|[Tt]hat (?:of|which|one))\b")
# Comments for linters and type checkers
FOR_PROGRAMS = re.compile(r"#\s*(type:|noqa|ruff|pragma|fmt:|!)")


class Share(NamedTuple):
    """How many of all are of a kind: docstrings without a verb, comments at the end of a line, words for nouns."""

    found: int
    of: int

    @property
    def percent(self) -> float:
        """Return the share in percent; 0 of nothing."""
        return 100 * self.found / self.of if self.of else 0.0

    @property
    def per_thousand(self) -> float:
        """Return how many there are in a thousand; 0 of nothing."""
        return 10 * self.percent


class Prose(NamedTuple):
    """The counts of one file, or of several added up."""

    docstrings_without_verb: Share
    # Of all "where" and "if" together
    where_for_if: Share
    comments_at_line_ends: Share
    names_of_one_word: Share
    # Of all words
    words_for_nouns: Share


def count_prose(text: str) -> Prose:
    """Count one file's docstrings, comments and names of functions."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    told = [told for node in functions if (told := ast.get_docstring(node))]
    others = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef))]
    at_ends, comments = _find_comments(text)
    prose = " ".join((*told, *others, *comments))
    words = Counter(re.findall(WORD, prose.lower()))
    names = [node.name.strip("_") for node in functions if not node.name.startswith("__")]
    return Prose(
        Share(sum(_first_word(doc) in NO_VERBS for doc in told), len(told)),
        Share(words["where"], words["where"] + words["if"]),
        Share(at_ends, len(comments)),
        Share(sum("_" not in name for name in names), len(names)),
        count_words_for_nouns(prose),
    )


def count_page(text: str) -> Share:
    """Count the words of a page that stand for nouns, outside of its examples and of what is in backticks."""
    return count_words_for_nouns(re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE))


def count_words_for_nouns(prose: str) -> Share:
    """Count the words that stand for a noun, and all words."""
    return Share(len(FOR_NOUNS.findall(prose)), len(re.findall(WORD, prose)))


def add_up(files: Iterable[Prose]) -> Prose:
    """Return the counts of all files together."""
    kinds = zip(*files, strict=True)
    return Prose(*(Share(sum(each.found for each in kind), sum(each.of for each in kind)) for kind in kinds))


def _first_word(docstring: str) -> str:
    found = re.search(r"[A-Za-z']+", docstring)
    return found[0].lower() if found else ""


def _find_comments(text: str) -> tuple[int, list[str]]:
    """Return how many comments stand behind code on their line, and the comments."""
    at_ends, found = 0, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not FOR_PROGRAMS.match(token.string):
            at_ends += bool(token.line[: token.start[1]].strip())
            found.append(token.string)
    return at_ends, found


def read_prose(sources: Path) -> dict[Path, Prose]:
    """Count each file below a folder."""
    return {file: count_prose(file.read_text()) for file in sorted(sources.rglob("*.py"))}
