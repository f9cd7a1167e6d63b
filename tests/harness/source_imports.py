"""Which source file imports which: at the top, in functions, for annotations only, or by a name in a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path


def roots(sources: Path) -> dict[str, Path]:
    """Return each package below `sources` and the folder from which it is imported."""
    folders = (folder for root in (sources, sources / "entrypoint") for folder in root.iterdir())
    return {folder.name: folder.parent for folder in folders if (folder / "__init__.py").exists()}


def modules(sources: Path) -> dict[str, Path]:
    """Return every source file by the name under which it is imported."""
    found = {}
    for package, root in roots(sources).items():
        for file in (root / package).rglob("*.py"):
            name = file.relative_to(root).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = file
    return found


def strings(tree: ast.AST, sources: Path) -> Iterator[str]:
    """Yield the strings that name a module of ours."""
    # Names of files look the same
    dotted = re.compile(rf"({'|'.join(roots(sources))})(\.(?!(?:py|pth)$)[a-z_]+)+")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and dotted.fullmatch(node.value):
            yield node.value


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each imported thing: a module, or a name in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def edges(sources: Path) -> dict[str, set[str]]:
    """Return module -> the modules of ours that its text names."""
    files = modules(sources)
    found = {}
    for name, file in files.items():
        tree = ast.parse(file.read_text())
        named = {
            each if each in files else each.rpartition(".")[0] for each in (*imported(tree), *strings(tree, sources))
        }
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
