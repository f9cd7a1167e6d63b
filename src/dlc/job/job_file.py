"""A job as a file: what `dlc run --save` writes and every place reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dlc.checked_yaml.problems import Problem, raise_report
from dlc.checked_yaml.yaml_layers import parse_yaml
from dlc.core.errors import UsageError
from dlc.job.job_spec import SECRET, JobSpec
from dlc.job.stated_job import StatedJob, state_job
from dlc.job.values import FROM_SHELL, FromShell

HEAD = "# A job: `dlc run FILE`, or `dlc submit FILE --to PLACE`. Paths are from this file's folder.\n"


def read_job_file(path: Path) -> StatedJob:
    """Read a file. Raises SpecError with every problem of it: line, column, what was expected and found."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = "none" if isinstance(error, FileNotFoundError) else str(error)
        raise UsageError(f"{path}: expected the file of a job, found {why}", "dlc run ... --save job.yml") from None
    node, problems = parse_yaml(text, str(path))
    raise_report(problems)
    if node is None or isinstance(node.value, str | tuple):
        raise_report([Problem(node.mark, "", "a mapping with image and script")] if node else [])
        raise AssertionError(path)
    return state_job(node, path.absolute().parent, is_file=True)


def format_job(spec: JobSpec, folder: Path) -> str:
    """Return the text of a file in `folder` that says the job. Values that look like secrets are left out."""
    short = spec.map_paths(lambda word: _shorten(word, folder))
    said = short.model_copy(update={"environment": _hide_secrets(spec.environment)})
    plain = _drop_empty(said.model_dump(exclude_defaults=True))
    text = yaml.dump(plain, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120)
    return f"{HEAD}{text}"


class _PlainDumper(yaml.SafeDumper):
    """Writes text without quotes if it can: who reads the file takes every value for text."""


_PlainDumper.yaml_implicit_resolvers = {}


def _drop_empty(value: Any) -> Any:
    """Return text, lists and mappings alone, without mappings of which all is left out; a group stays."""
    if isinstance(value, Mapping):
        return {str(key): _drop_empty(each) for key, each in value.items()}
    return [*value] if isinstance(value, tuple) else str(value)


def _hide_secrets(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Map variables to their values; one without a value, or whose name says that it is a secret, is the shell's."""
    return {
        name: {"from": FROM_SHELL} if value == FromShell() or SECRET.search(name) else value
        for name, value in variables.items()
    }


def _shorten(word: str, folder: Path) -> str:
    """Return a path from the file's folder if it is in it, else from the root."""
    path = Path(os.path.normpath(Path(word)))
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def list_open_secrets(spec: JobSpec) -> list[str]:
    """Return a warning for each variable that is a secret by its name, and whose value the file shows."""
    return [
        f"environment.{name}: its value is in the file; write {name}: {{from: {FROM_SHELL}}} and set it in the shell"
        for name, value in spec.environment.items()
        if value and isinstance(value, str) and SECRET.search(name)
    ]


def make_schema() -> dict[str, Any]:
    """Return the JSON Schema for editors. Numbers, yes or no, and nothing may stand without quotes."""
    schema: dict[str, Any] = _allow_plain(JobSpec.model_json_schema())
    return schema


def _allow_plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_allow_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _allow_plain(value) for key, value in schema.items()}
    is_free = plain.get("type") == "string" and "enum" not in plain
    return {**plain, "type": ["string", "number", "boolean", "null"]} if is_free else plain
