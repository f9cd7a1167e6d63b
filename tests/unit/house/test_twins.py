"""What two functions say alike is one function: no body of three lines or more stands twice in dlc."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
# Shorter ones are alike by chance.
FEWEST_LINES = 3


def write_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the body without its docstring and whatever its arguments are called."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    places = {argument.arg: f"argument {index}" for index, argument in enumerate(function.args.args)}
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Name):
            node.id = places.get(node.id, node.id)
    return "\n".join(map(ast.unparse, body))


@pytest.mark.parametrize("package", ["dlc", "dlc_channel", "dlc_lint"])
def test_no_function_stands_twice_in_a_package(package: str) -> None:
    known: dict[str, list[str]] = defaultdict(list)
    for file in sorted((SOURCES / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                place = f"{file.relative_to(SOURCES)}:{node.lineno} {node.name}"
                known[write_body(node)].append(place)
    twins = [places for text, places in known.items() if len(places) > 1 and text.count("\n") + 1 >= FEWEST_LINES]
    assert twins == []
