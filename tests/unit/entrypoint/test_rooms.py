"""The launcher's rooms: few entries at the top, short files, and imports that go one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

LAUNCH = Path("src/entrypoint/launch")
# room -> what it may import; `launch.signals`, which is armed first, is open to all but base
ROOMS = {
    "base": set(),
    "discovery": {"base"},
    "job": {"base"},
    "plan": {"base", "discovery", "job"},
    "supervision": {"base"},
    "group": {"base", "discovery", "job", "plan", "supervision"},
}


def imported(file: Path) -> Iterator[str]:
    """The rooms and top modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "launch":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("launch."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("launch."))


def test_imports_between_rooms_go_one_way() -> None:
    for room, allowed in ROOMS.items():
        top = {"signals"} if room != "base" else set()
        for file in (LAUNCH / room).rglob("*.py"):
            assert set(imported(file)) <= {room} | allowed | top, file


def test_the_top_has_at_most_12_entries_and_no_file_400_lines() -> None:
    assert len([path for path in LAUNCH.iterdir() if path.name != "__pycache__"]) <= 12
    for file in Path("src/entrypoint").rglob("*.py"):
        assert len(file.read_text().splitlines()) < 400, file
