"""A request held against the limits in the service's own description of it. Pure but for one file.

botocore brings the description, and its `validate` checks types and keys of each request before boto3 sends it. That
check knows no largest value, no pattern and no list of values, and shows what it refuses, secrets too: so it is no help
before the code is uploaded. The file is read without botocore, whose import takes longer than all the rest.
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
# Below these, values may be secrets.
HIDDEN = ("Environment",)
LONGEST_SHOWN = 60

Steps = tuple[str | int, ...]
Shape = Mapping[str, Any]
Shapes = Mapping[str, Shape]


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


def find_violations(value: Any, shapes: Shapes, name: str = REQUEST, path: Steps = ()) -> Iterator[Violation]:
    """Yield every limit that a value breaks, in the order of the value. `name` is that of its shape."""
    shape = shapes[name]
    kind = shape["type"]
    if kind == "structure":
        yield from _check_structure(value, shape, shapes, path)
    elif kind == "map":
        yield from _check_map(value, shape, shapes, path)
    elif kind == "list":
        yield from _check_size(len(value), "entries", shape, path)
        for index, item in enumerate(value):
            yield from find_violations(item, shapes, shape["member"]["shape"], (*path, index))
    elif kind == "string":
        yield from _check_text(value, shape, path)
    elif kind in ("integer", "long"):
        yield from _check_size(value, "", shape, path)


def _check_structure(value: Mapping[str, Any], shape: Shape, shapes: Shapes, path: Steps) -> Iterator[Violation]:
    for name in shape.get("required", ()):
        if name not in value:
            yield Violation((*path, name), "a value", "none")
    for name, child in value.items():
        # An old botocore may lack a key; boto3 says so.
        if member := shape["members"].get(name):
            yield from find_violations(child, shapes, member["shape"], (*path, name))


def _check_map(value: Mapping[str, Any], shape: Shape, shapes: Shapes, path: Steps) -> Iterator[Violation]:
    yield from _check_size(len(value), "entries", shape, path)
    for key, child in value.items():
        for violation in _check_text(key, shapes[shape["key"]["shape"]], (*path, key)):
            # The name may be seen, whatever its value is.
            yield Violation(violation.path, f"a name with {violation.expected}", _describe_text(key, ()))
        yield from find_violations(child, shapes, shape["value"]["shape"], (*path, key))


def _check_text(text: str, shape: Shape, path: Steps) -> Iterator[Violation]:
    if "enum" in shape:
        if text not in shape["enum"]:
            yield _explain_enum(text, shape["enum"], path)
        return
    sized = list(_check_size(len(text), "characters", shape, path))
    yield from sized
    # A text that is too long or too short fails most patterns too.
    if not sized and "pattern" in shape and not _compile_pattern(shape["pattern"]).fullmatch(text):
        yield Violation(path, f"text of the form {shape['pattern']}", _describe_text(text, path))


def _explain_enum(text: str, known: list[str], path: Steps) -> Violation:
    """Return the violation of a type of machine; other values with a list are checked with the options."""
    # A newer service has more of them.
    hint = did_you_mean(text, known) or "if it is new: python -m pip install --upgrade boto3"
    expected = f"one of {len(known)} that boto3 knows, such as {known[0]}"
    return Violation(path, expected, _describe_text(text, path), hint)


def _check_size(size: int, unit: str, shape: Shape, path: Steps) -> Iterator[Violation]:
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


def _describe_text(text: str, path: Steps) -> str:
    """Describe a text, short enough for one line; of one that may be a secret only its length."""
    if path and path[0] in HIDDEN:
        return f"{len(text):,} characters"
    shown = repr(text)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."
