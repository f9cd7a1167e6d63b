"""The table of settings in docs/buildspec.md, written from the models so that it cannot say anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel

from dlc.buildspec.models import MEANINGS, Header, Settings

DOCUMENT = "docs/buildspec.md"
BEGIN, END = "<!-- settings: `dlc schema` writes this -->\n", "<!-- end of settings -->\n"


def render(document: str) -> str:
    """The document with its table written anew."""
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: BEGIN + table() + END, document, flags=re.DOTALL)


def table() -> str:
    """One row per key: where it may stand, what it holds, what it means."""
    rows = ["| key | in | holds | meaning |", "|---|---|---|---|"]
    rows += [_row(path, "image file", field) for path, field in _fields(Header)]
    rows += [_row(path, "any layer", field) for path, field in _fields(Settings)]
    return "\n".join(rows) + "\n"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """Dotted path and JSON schema of each leaf of a model."""
    properties = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, properties[name]


def _row(path: str, place: str, schema: dict[str, object]) -> str:
    return f"| `{path}` | {place} | {_holds(schema)} | {schema['description']} |"


def _holds(schema: dict[str, object]) -> str:
    """A schema in words: `a list of Debian package names` rather than its pattern."""
    items, pattern = schema.get("items"), schema.get("pattern")
    if isinstance(items, dict):
        return f"list: {_holds(items)}"
    if isinstance(pattern, str):
        return MEANINGS[pattern]
    return "mapping" if schema.get("type") == "object" else "text"
