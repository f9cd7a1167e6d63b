"""Text for a terminal: tables that fit its width, messages that cannot command it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

# Controls that a message may hold.
CONTROLS = "\n\t"


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Align columns under their heads; with `columns` characters to a line, no line is wrapped if that is possible."""
    lines = [tuple(heads), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    if columns is None or max(map(len, text)) <= columns:
        return "\n".join(text)
    widest = max(map(len, heads))
    return "\n\n".join(
        "\n".join(f"{head:<{widest}}  {cell}" for head, cell in zip(heads, row, strict=True) if cell) for row in rows
    )


def escape_controls(text: str) -> str:
    """Escape control characters, which a terminal obeys: programs and registries have written parts of the text."""
    return "".join(each if each.isprintable() or each in CONTROLS else repr(each)[1:-1] for each in text)
