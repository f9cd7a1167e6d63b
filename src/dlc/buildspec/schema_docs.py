"""Writes the JSON Schemas and the table of settings from the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from dlc.buildspec.instances import Instances
from dlc.buildspec.models import Compat, Header, Pins, ScanExceptions, Settings
from dlc.checked_yaml.patterns import MEANINGS

Schema = dict[str, Any]
# Of the files that users write: buildspec/*.yml, dlc.yml, a job's file. docs/stability.md says what changes it.
VERSION = 1
DOCUMENT = "docs/buildspec.md"
BEGIN, END = "<!-- settings: `dlc schema` writes this -->\n", "<!-- end of settings -->\n"


def make_schemas() -> Mapping[str, str]:
    """Map paths from the repository's root to the text of each schema file."""
    values = {
        "buildspec/buildspec.schema.json": _make_image_schema(),
        "buildspec/defaults.schema.json": Settings.model_json_schema(),
        "buildspec/pins.schema.json": Pins.model_json_schema(),
        "buildspec/compat.schema.json": Compat.model_json_schema(),
        "buildspec/scan-exceptions.schema.json": ScanExceptions.model_json_schema(),
        "buildspec/instances.schema.json": Instances.model_json_schema(),
    }
    return {path: format_schema(path, schema) for path, schema in values.items()}


def _make_image_schema() -> Schema:
    """Join header and settings in one mapping, as image files do. Variants are settings; no setting is required."""
    header, settings = Header.model_json_schema(), _drop_required(Settings.model_json_schema())
    definitions = settings.pop("$defs")
    variants = {**header["properties"]["variants"], "items": {"$ref": "#/$defs/Variant"}}
    return {
        "$defs": {**definitions, "Variant": {**settings, "title": "Variant", "description": "Settings of one image."}},
        "title": "Image file",
        "description": "What names the images of one file, settings they share, and the list of its variants.",
        "type": "object",
        "additionalProperties": False,
        "properties": {**header["properties"], **settings["properties"], "variants": variants},
        "required": header["required"],
    }


def _drop_required(schema: Schema) -> Schema:
    """Return the same schema without a required key in any object."""
    trimmed = {key: value for key, value in schema.items() if key != "required"}
    if "$defs" in trimmed:
        trimmed["$defs"] = {name: _drop_required(definition) for name, definition in trimmed["$defs"].items()}
    return trimmed


def format_schema(path: str, schema: Schema) -> str:
    """Return the text of a schema's file. Its identifier says the version of what it describes."""
    name = path.rpartition("/")[2].removesuffix(".schema.json")
    head = {"$id": f"urn:dlc:schema:{VERSION}:{name}", "$schema": "https://json-schema.org/draft/2020-12/schema"}
    whole = {**head, **schema}
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def update_document(document: str) -> str:
    """Return the document with its table updated."""
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: BEGIN + make_table() + END, document, flags=re.DOTALL
    )


def update_keys(document: str, name: str, model: type[BaseModel]) -> str:
    """Return a document with the table between the markers of `name` updated: each key of a model, and its meaning."""
    rows = [f"| `{path}` | {schema['description']} |" for path, schema in _list_fields(model)]
    return update_between(document, f"keys of {name}", "\n".join(["| key | meaning |", "|---|---|", *rows]) + "\n")


def make_marks(name: str, verb: str = "dlc schema") -> tuple[str, str]:
    """Return the lines before and behind a table that a verb writes."""
    return f"<!-- {name}: `{verb}` writes this -->\n", f"<!-- end of {name} -->\n"


def update_between(document: str, name: str, table: str, verb: str = "dlc schema") -> str:
    """Return a document with `table` between the marks of `name`; unchanged if it has no such marks."""
    begin, end = make_marks(name, verb)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + table + end, document, flags=re.DOTALL)


def make_table() -> str:
    """Return a row per key: where it may stand, what it holds, what it means."""
    rows = ["| key | in | holds | meaning |", "|---|---|---|---|"]
    rows += [_format_row(path, "image file", field) for path, field in _list_fields(Header)]
    rows += [_format_row(path, "any layer", field) for path, field in _list_fields(Settings)]
    return "\n".join(rows) + "\n"


def _list_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """List dotted path and JSON schema of each leaf of a model."""
    properties = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _list_fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, properties[name]


def _format_row(path: str, place: str, schema: dict[str, object]) -> str:
    return f"| `{path}` | {place} | {_describe_schema(schema)} | {schema['description']} |"


def _describe_schema(schema: dict[str, object]) -> str:
    """Describe a schema in words: `a list of Debian package names` rather than its pattern."""
    items, pattern = schema.get("items"), schema.get("pattern")
    if isinstance(items, dict):
        return f"list: {_describe_schema(items)}"
    if isinstance(pattern, str):
        return MEANINGS[pattern]
    return "mapping" if schema.get("type") == "object" else "text"
