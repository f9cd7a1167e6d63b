"""The schemas that editors read are those of the models, and the buildspec files are valid by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dlc.buildspec.schema_docs import make_schemas
from dlc.core.checkout import find_root
from harness.specimen import TEXTS

ROOT = find_root(Path(__file__).parent)
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "buildspec").glob("**/*.yml"))


def schema_of(path: str) -> Any:
    """The schema that the first line of a YAML file names, found from the file."""
    first = (ROOT / path).read_text().partition("\n")[0]
    assert first.startswith("# yaml-language-server: $schema="), path
    named = (ROOT / path).parent / first.partition("$schema=")[2]
    return json.loads(named.read_text())


def errors(schema: Any, text: str) -> list[str]:
    document = yaml.load(text, yaml.BaseLoader)
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("path", sorted(make_schemas()))
def test_the_committed_schema_is_fresh(path: str) -> None:
    assert (ROOT / path).read_text() == make_schemas()[path], "`dlc schema` writes it anew"


@pytest.mark.parametrize("path", FILES)
def test_every_buildspec_file_names_a_schema_and_is_valid_by_it(path: str) -> None:
    schema = schema_of(path)
    Draft202012Validator.check_schema(schema)
    assert errors(schema, (ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("os_packages: [g++]", "os_package: [g++]"),
        ("variants:", "variant:"),
        ("[g++]", "g++"),
        ("- packages", "- packs"),
    ],
)
def test_the_schema_refuses_what_dlc_refuses(old: str, new: str) -> None:
    text = TEXTS["buildspec/pytorch/2.13-training.yml"]
    schema = json.loads(make_schemas()["buildspec/buildspec.schema.json"])
    assert errors(schema, text) == []
    assert errors(schema, text.replace(old, new)) != []


def test_every_setting_is_described_for_the_editor() -> None:
    def settings(schema: Any) -> list[tuple[str, Any]]:
        inner = [item for definition in schema.get("$defs", {}).values() for item in settings(definition)]
        return [*schema.get("properties", {}).items(), *inner]

    described = json.loads(make_schemas()["buildspec/defaults.schema.json"])
    assert [name for name, value in settings(described) if "description" not in value and "$ref" not in value] == []
