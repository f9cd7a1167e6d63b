"""No circle of the launcher's files, imports that are lazy, for annotations or by a name in a string included."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from launch.discovery.discover import DISCOVERERS

SOURCES = Path(__file__).parents[3] / "src/entrypoint"


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(file): file for file in (SOURCES / "launch").rglob("*.py")}


def named(file: Path) -> Iterator[str]:
    """Yield what the file imports, and what its strings name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in FILES else str(node.module) for name in whole)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def test_no_file_imports_itself_on_any_way() -> None:
    graph = {name: set(named(file)) & FILES.keys() - {name} for name, file in FILES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)  # raises CycleError, which names the files


@pytest.mark.parametrize("place", sorted(DISCOVERERS.values()))
def test_what_a_table_names_can_be_called(place: str) -> None:
    module, _, function = place.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", sorted({name for file in FILES.values() for name in named(file)} & FILES.keys()))
def test_every_module_that_is_named_can_be_imported(name: str) -> None:
    assert importlib.import_module(name).__name__ == name
