"""The size and the prose of a checkout's src: files, functions, circles of imports, what docs/style.md counts.

    python benchmarks/house.py [CHECKOUT]

An older commit is measured in a work tree: git worktree add --detach ../before COMMIT
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from harness.prose import add_up, read_prose  # noqa: E402
from harness.source_imports import circles, edges  # noqa: E402 (the same that the tests' rule reads)

SHORT_LINES = 40


def main() -> None:
    """Print the figures as rows of a Markdown table."""
    sources = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT) / "src"
    files = {file: file.read_text() for file in sources.rglob("*.py")}
    lines = {file: len(text.splitlines()) for file, text in files.items()}
    others = [count for file, count in lines.items() if file.name != "__init__.py"]
    functions = [length for text in files.values() for length in function_lengths(text)]
    rows = {
        "files, of them `__init__`": f"{len(files)}, {len(files) - len(others)}",
        "lines": f"{sum(lines.values()):,}",
        "lines of a file: median, without `__init__`, longest": (
            f"{median(lines.values()):.0f}, {median(others):.0f}, {max(others)}"
        ),
        f"files below {SHORT_LINES} lines, without `__init__`": (
            f"{sum(count < SHORT_LINES for count in lines.values())}, {sum(count < SHORT_LINES for count in others)}"
        ),
        "functions": f"{len(functions):,}",
        "lines of a function: median, longest": f"{median(functions):.0f}, {max(functions)}",
        "circles of imports": str(len(circles(edges(sources)))),
    }
    for kind, share in add_up(read_prose(sources).values())._asdict().items():
        rows[kind.replace("_", " ")] = f"{share.percent:.0f}% of {share.of:,}"
    for name, figure in rows.items():
        print(f"| {name} | {figure} |")


def function_lengths(text: str) -> list[int]:
    """Return the lines of each function, from its `def` to its last one."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


if __name__ == "__main__":
    main()
