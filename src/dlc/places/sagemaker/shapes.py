"""A request held against the service's own description of it: types, enums, lengths, patterns. Pure but for one file.

botocore brings the description. It is read without botocore, whose import takes longer than all the rest.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlc.checked_yaml.problems import did_you_mean

SERVICE = Path("data", "sagemaker", "2017-07-24", "service-2.json.gz")
REQUEST = "CreateTrainingJobRequest"
# Classes of Java's expressions -> what stands for them between brackets.
CLASSES = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s", r"\p{Alnum}": "a-zA-Z0-9"}
# Kind of a shape -> its type, and its words in an error.
KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "text"),
    "integer": (int, "a whole number"),
    "long": (int, "a whole number"),
    "boolean": (bool, "true or false"),
    "list": (list, "a list"),
}
# Below these, values may be secrets.
HIDDEN = ("Environment",)
LONGEST_SHOWN = 60

Steps = tuple[str | int, ...]
Shapes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Violation:
    """A value of a request that the service would refuse."""

    # Keys and indices from the request's top.
    path: Steps
    expected: str
    found: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{format_path(self.path)}: expected {self.expected}, found {self.found}"


def format_path(path: Steps) -> str:
    """Return a path as a person writes it: ResourceConfig.InstanceGroups[0].InstanceType."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


@cache
def read_shapes() -> Shapes | None:
    """Return the shapes of the service that the installed botocore knows; None without botocore."""
    spec = find_spec("botocore")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [Path(folder) / SERVICE for folder in folders if (Path(folder) / SERVICE).is_file()]
    if not files:
        return None
    shapes: Shapes = json.loads(gzip.decompress(files[0].read_bytes()))["shapes"]
    return shapes


def find_violations(request: Mapping[str, Any], shapes: Shapes, shape: str = REQUEST) -> list[Violation]:
    """Return everything in the request that its shape forbids, in the order of the request."""
    return list(_check_value(request, shape, shapes, ()))


def _check_value(value: Any, name: str, shapes: Shapes, path: Steps) -> Iterator[Violation]:
    shape = shapes[name]
    kind = shape["type"]
    if kind == "structure":
        yield from _check_structure(value, shape, shapes, path)
    elif kind == "map":
        yield from _check_map(value, shape, shapes, path)
    elif kind in KINDS:
        wanted, words = KINDS[kind]
        # bool is a kind of int to Python.
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            yield from _check_plain(value, shape, shapes, path)
        else:
            yield Violation(path, words, _describe_value(value, path))


def _check_plain(value: Any, shape: Mapping[str, Any], shapes: Shapes, path: Steps) -> Iterator[Violation]:
    """Check a value whose type is right."""
    if shape["type"] == "list":
        yield from _check_size(len(value), "entries", shape, path)
        for index, item in enumerate(value):
            yield from _check_value(item, shape["member"]["shape"], shapes, (*path, index))
    elif shape["type"] == "string":
        yield from _check_text(value, shape, path)
    else:
        yield from _check_size(value, "", shape, path)


def _check_structure(value: Any, shape: Mapping[str, Any], shapes: Shapes, path: Steps) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield Violation(path, "a mapping", _describe_value(value, path))
        return
    members = shape["members"]
    for name in shape.get("required", ()):
        if name not in value:
            yield Violation((*path, name), "a value", "none")
    for name, child in value.items():
        if name in members:
            yield from _check_value(child, members[name]["shape"], shapes, (*path, name))
        else:
            known = ", ".join(sorted(members))
            yield Violation((*path, name), f"one of {known}", f"unknown key {name!r}", did_you_mean(name, members))


def _check_map(value: Any, shape: Mapping[str, Any], shapes: Shapes, path: Steps) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield Violation(path, "a mapping", _describe_value(value, path))
        return
    yield from _check_size(len(value), "entries", shape, path)
    for key, child in value.items():
        for violation in _check_value(key, shape["key"]["shape"], shapes, (*path, key)):
            # The name may be seen, whatever its value is.
            yield Violation(violation.path, f"a name with {violation.expected}", _describe_value(key, ()))
        yield from _check_value(child, shape["value"]["shape"], shapes, (*path, key))


def _check_text(text: str, shape: Mapping[str, Any], path: Steps) -> Iterator[Violation]:
    if "enum" in shape:
        if text not in shape["enum"]:
            yield _explain_enum(text, shape["enum"], path)
        return
    sized = list(_check_size(len(text), "characters", shape, path))
    yield from sized
    # A text that is too long or too short fails most patterns too.
    if not sized and "pattern" in shape and not _compile_pattern(shape["pattern"]).fullmatch(text):
        yield Violation(path, f"text of the form {shape['pattern']}", _describe_value(text, path))


def _explain_enum(text: str, known: list[str], path: Steps) -> Violation:
    near = did_you_mean(text, known)
    if len(known) > 12:
        # A newer service has more of them.
        near = near or "if it is new: python -m pip install --upgrade boto3"
        expected = f"one of {len(known)} that boto3 knows, such as {known[0]}"
    else:
        expected = f"one of {', '.join(known)}"
    return Violation(path, expected, _describe_value(text, path), near)


def _check_size(size: int, unit: str, shape: Mapping[str, Any], path: Steps) -> Iterator[Violation]:
    least, most = shape.get("min"), shape.get("max")
    what = f" {unit}" if unit else ""
    if most is not None and size > most:
        yield Violation(path, f"at most {most:,}{what}", f"{size:,}{what}")
    elif least is not None and size < least:
        yield Violation(path, f"at least {least:,}{what}", f"{size:,}{what}")


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    for java, python in CLASSES.items():
        pattern = pattern.replace(java, python)
    return re.compile(pattern)


def _describe_value(value: Any, path: Steps) -> str:
    """Describe a value, short enough for one line; of one that may be a secret only its length."""
    if path and path[0] in HIDDEN and isinstance(value, str):
        return f"{len(value):,} characters"
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
