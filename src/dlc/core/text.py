"""Text for a terminal: tables that fit its width, colours and links, messages that cannot command it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

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


def format_bytes(size: float) -> str:
    """Return bytes in the largest unit of a thousand that they fill: 1.25 GB, 3.0 MB, 999 B."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}" if unit == "GB" else f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"


def escape_controls(text: str) -> str:
    """Escape control characters, which a terminal obeys: programs and registries have written parts of the text."""
    return "".join(each if each.isprintable() or each in CONTROLS else repr(each)[1:-1] for each in text)


# What a word means -> the number of the terminal's colour. A head is bold.
COLORS = {"head": "1", "good": "32", "note": "33", "bad": "31"}
# A colour, or the address of a link.
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
# A line that goes on in the next one is indented by so much more.
HANGING = 4


def paint_text(text: str, kind: str) -> str:
    """Return a text in the colour of its kind."""
    return f"\x1b[{COLORS[kind]}m{text}\x1b[0m"


def paint_lines(text: str, kinds: Mapping[str, str]) -> str:
    """Paint lines whose first word, without a colon, is one of `kinds`: that word, of a head the whole line."""

    def paint(found: re.Match[str]) -> str:
        indent, word, rest = found.groups()
        kind = kinds.get(word.rstrip(":"))
        if kind == "head":
            return indent + paint_text(word + rest, kind)
        return indent + (paint_text(word, kind) if kind else word) + rest

    return re.sub(r"(?m)^( *)(\S+)(.*)$", paint, text)


def link_text(text: str, address: str) -> str:
    """Return a text that leads to an address where a terminal knows links (OSC 8), and is plain where not."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\"


def plain_text(text: str) -> str:
    """Return a text without colours and links."""
    return SEQUENCE.sub("", text)


def link_paths(text: str) -> str:
    """Return a text in which each path that ends a line, behind a colon, leads to its file or folder."""
    return re.sub(r"(?m)(?<=: )/\S+$", lambda found: link_text(found[0], f"file://{quote(found[0])}"), text)


def shows_colors(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Tell whether colours and links are wanted: on a terminal that is no dumb one, unless NO_COLOR is set."""
    return is_terminal and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


def wrap_text(text: str, columns: int) -> str:
    """Break lines at spaces to `columns` characters. A longer word stays whole: somebody may copy it."""
    return "\n".join(broken for line in text.split("\n") for broken in _wrap_line(line, columns))


def _wrap_line(line: str, columns: int) -> list[str]:
    if len(plain_text(line)) <= columns:
        return [line]
    indent = " " * min(len(line) - len(line.lstrip()) + HANGING, columns // 2)
    lines, current, is_empty = [], "", True
    for word in re.findall(r"\s*\S+", line):
        if not is_empty and len(plain_text(current + word)) > columns:
            lines.append(current)
            current = indent + word.lstrip()
        else:
            current += word
        is_empty = False
    return [*lines, current]
