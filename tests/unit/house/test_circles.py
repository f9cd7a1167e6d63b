"""No file imports itself through others: at the top, in functions, for annotations only, or by a name in a string."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from harness.source_imports import circles, edges, modules, strings

SOURCES = Path(__file__).parents[3] / "src"
LOGGER = "dlc.dataservice"  # a name of Python's logging, not of a module
# A file of users.
PROJECT = "dlc.yml"


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset({"b", "c"})}


def test_no_file_imports_itself_through_others() -> None:
    assert circles(edges(SOURCES)) == set()


def test_every_module_that_a_string_names_is_there() -> None:
    lost = {
        f"{file.relative_to(SOURCES)}: {name}"
        for file in modules(SOURCES).values()
        for name in strings(ast.parse(file.read_text()), SOURCES)
        if name not in (LOGGER, PROJECT) and name not in modules(SOURCES)
    }
    assert lost == set()


def test_every_verb_of_dlc_can_be_found_by_the_name_that_loads_it() -> None:
    from dlc.cli import PLUMBING, VERBS

    assert [name for name in (*VERBS.values(), *PLUMBING.values()) if find_spec(name) is None] == []


def test_the_line_that_starts_the_runtime_names_modules() -> None:
    line = (SOURCES.parent / "docker/scripts/runtime/dlc_runtime.pth").read_text()
    named = re.findall(r'__import__\("([\w.]+)"\)', line)
    assert named
    assert set(named) <= modules(SOURCES).keys()
