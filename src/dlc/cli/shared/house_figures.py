"""The size of src, room by room beside its peers, and of the house: the two tables that `dlc docs` writes. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

# Folders whose entries are rooms of their own.
BUILDINGS = (
    *("dlc", "dlc/places", "entrypoint", "entrypoint/launch"),
    *("dlc_runtime", "dlc_runtime/compiler", "dlc_runtime/dataservice"),
)
# A package or a room -> what a peer needs for the same, in code lines without its tests, counted as ours are on
# 2026-11-30 from the package index. cog is Go: its figure, of commit 6110c91, was not counted by this code.
PEERS = {
    "dlc": "cog, 26,478",
    "dlc/places/slurm": "torchx 0.7.0, 432",
    "dlc/places/kubernetes": "torchx 0.7.0, 554",
    "dlc/places/sagemaker": "torchx 0.7.0, 486",
    "dlc/registry": "oras-py 0.2.43, 2,136",
    "dlc_lint": "TorchFix 0.7.0, 1,316",
    "entrypoint": "sagemaker-training 5.1.4, 2,948",
}
ROOMS_HEAD = "| room | files | code lines | longest file | peer |\n|---|---|---|---|---|\n"
HOUSE_HEAD = "| in `src` | |\n|---|---|\n"
# A table is stale if a figure of it is off by more than this share, and by more than these lines.
TOLERANCE, SLACK_LINES = 0.1, 50


class FileSize(NamedTuple):
    """What is counted of one file."""

    # Lines that hold code: no blank ones, no comments, no docstrings.
    code_lines: int
    lines: int
    # Lines of each function, from `def` to its end.
    functions: tuple[int, ...]


def measure_file(text: str) -> FileSize:
    """Count the lines of a Python file."""
    tree = ast.parse(text)
    told, functions = set[int](), list[int]()
    for node in _walk_definitions(tree):
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            told.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
    lines = text.splitlines()
    is_code = [bool(line.strip()) and not line.lstrip().startswith("#") for line in lines]
    code = {number for number, holds in enumerate(is_code, 1) if holds} - told
    return FileSize(len(code), len(lines), tuple(functions))


def _walk_definitions(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def find_room(path: str) -> str:
    """Return the room of a file, by its path in src: the outermost folder that is no building."""
    folders = path.split("/")[:-1]
    named = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
    return next((name for name in named if name not in BUILDINGS), "/".join(folders))


def make_rooms_table(files: Mapping[str, FileSize]) -> str:
    """Return a row for each package and each room: how many files, code lines, and the peer's."""
    rows = []
    for package in sorted({path.partition("/")[0] for path in files}):
        inside = {path: size for path, size in files.items() if path.startswith(f"{package}/")}
        rows.append(_format_row(f"**{package}**", package, inside.values()))
        for room in sorted({find_room(path) for path in inside}):
            sizes = [size for path, size in inside.items() if find_room(path) == room]
            if room in BUILDINGS:
                rows.append(_format_row(f"`{room}/*.py`", "", sizes))
            elif room != package:
                rows.append(_format_row(f"`{room}`", room, sizes))
    return ROOMS_HEAD + "".join(rows)


def _format_row(title: str, room: str, sizes: Iterable[FileSize]) -> str:
    """Return one row of the table of rooms."""
    counts = [size.code_lines for size in sizes]
    longest = max(size.lines for size in sizes)
    return f"| {title} | {len(counts)} | {sum(counts):,} | {longest} | {PEERS.get(room, '')} |\n"


def make_house_table(files: Mapping[str, FileSize]) -> str:
    """Return the figures of all of src: files, lines, functions, and how long the middle one is."""
    lines = [size.lines for size in files.values()]
    functions = [length for size in files.values() for length in size.functions]
    rows = {
        "files": f"{len(files):,}",
        "lines": f"{sum(lines):,}",
        "code lines": f"{sum(size.code_lines for size in files.values()):,}",
        "lines of a file: median, longest": f"{median(lines):.0f}, {max(lines)}",
        "functions": f"{len(functions):,}",
        "lines of a function: median, longest": f"{median(functions):.0f}, {max(functions)}",
    }
    return HOUSE_HEAD + "".join(f"| {name} | {figure} |\n" for name, figure in rows.items())


def is_near(written: str, fresh: str) -> bool:
    """Tell whether two tables have the same rows, with code lines that differ by a tenth or 50 at most."""
    before, now = (_read_figures(table) for table in (written, fresh))
    return before.keys() == now.keys() and all(
        abs(old - new) <= max(SLACK_LINES, TOLERANCE * max(old, new))
        for name in now
        for old, new in zip(before[name], now[name], strict=True)
    )


def _read_figures(table: str) -> dict[str, list[float]]:
    """Return the numbers of each row, by its first cell: a room's code lines, all of a row of the house."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    told = {row[0]: row[2] if len(row) > 2 else row[1] for row in rows}
    return {name: [float(word.replace(",", "")) for word in cell.split(", ")] for name, cell in told.items()}
