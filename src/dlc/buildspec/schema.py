"""JSON Schemas of the buildspec files, for editors: generated from the models, kept in buildspec/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlc.buildspec.models import Compat, Header, Pins, ScanExceptions, Settings

Schema = dict[str, Any]


def schemas() -> Mapping[str, str]:
    """Path from the repository's root -> text of the schema file."""
    values = {
        "buildspec/buildspec.schema.json": _image_file(),
        "buildspec/defaults.schema.json": Settings.model_json_schema(),
        "buildspec/pins.schema.json": Pins.model_json_schema(),
        "buildspec/compat.schema.json": Compat.model_json_schema(),
        "buildspec/scan-exceptions.schema.json": ScanExceptions.model_json_schema(),
    }
    return {path: _text(schema) for path, schema in values.items()}


def _image_file() -> Schema:
    """An image file is a header and settings in one mapping; its variants are settings; no setting is required."""
    header, settings = Header.model_json_schema(), _optional(Settings.model_json_schema())
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


def _optional(schema: Schema) -> Schema:
    """The same schema without a required key in any object."""
    trimmed = {key: value for key, value in schema.items() if key != "required"}
    if "$defs" in trimmed:
        trimmed["$defs"] = {name: _optional(definition) for name, definition in trimmed["$defs"].items()}
    return trimmed


def _text(schema: Schema) -> str:
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"
