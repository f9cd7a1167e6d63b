"""No file imports itself through others: at the top, in functions, for annotations only, or by a name in a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src"
ROOTS = {
    **dict.fromkeys(("dlc", "dlc_channel", "dlc_lint", "dlc_runtime"), SOURCES),
    "launch": SOURCES / "entrypoint",
}
DOTTED = re.compile(rf"({'|'.join(ROOTS)})(\.(?!(?:py|pth)$)[a-z_]+)+")  # no name of a file
LOGGER = "dlc.dataservice"  # a name of Python's logging, not of a module


def modules() -> dict[str, Path]:
    """Return every source file by the name under which it is imported."""
    found = {}
    for package, root in ROOTS.items():
        for file in (root / package).rglob("*.py"):
            name = file.relative_to(root).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = file
    return found


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield the strings that name a module of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.value


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each imported thing: a module, or a name in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def edges() -> dict[str, set[str]]:
    """Return module -> the modules of ours that its text names."""
    files = modules()
    found = {}
    for name, file in files.items():
        tree = ast.parse(file.read_text())
        named = {each if each in files else each.rpartition(".")[0] for each in (*imported(tree), *strings(tree))}
        found[name] = (named & files.keys()) - {name}
    return found


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the modules of each circle: those that reach each other."""
    reached = {name: reachable(graph, name) for name in graph}
    return {
        frozenset({name, *(other for other in reached[name] if name in reached[other])})
        for name in graph
        if name in reached[name]
    }


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return all that a module imports, directly or through others."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset({"b", "c"})}


def test_no_file_imports_itself_through_others() -> None:
    assert circles(edges()) == set()


def test_every_module_that_a_string_names_is_there() -> None:
    lost = {
        f"{file.relative_to(SOURCES)}: {name}"
        for file in modules().values()
        for name in strings(ast.parse(file.read_text()))
        if name != LOGGER and name not in modules()
    }
    assert lost == set()


def test_every_verb_of_dlc_can_be_found_by_the_name_that_loads_it() -> None:
    from dlc.cli import PLUMBING, VERBS

    assert [name for name in (*VERBS.values(), *PLUMBING.values()) if find_spec(name) is None] == []


def test_the_line_that_starts_the_runtime_names_modules() -> None:
    line = (SOURCES.parent / "docker/scripts/runtime/dlc_runtime.pth").read_text()
    named = re.findall(r'__import__\("([\w.]+)"\)', line)
    assert named
    assert set(named) <= modules().keys()
