"""The values of a job's file, as types: each has one spelling, and says what was expected in place of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainValidator, WithJsonSchema

from dlc.job.limits import UNLIMITED, read_cpus, read_gpus, read_memory, read_size

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
# What stands behind a colon and two slashes is no folder of this machine: s3://bucket/data, pvc://claim/data.
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")
FROM_SHELL = "environment"


@dataclass(frozen=True)
class FromShell:
    """The value of a variable that is in no file: that of the shell that starts the job."""


def is_address(word: str) -> bool:
    """Tell whether a channel or the checkpoints are at an address, not in a folder."""
    return bool(ADDRESS.match(word))


def _read(read: Callable[[str], str]) -> AfterValidator:
    """Return a check that leaves the one spelling that `read` returns; an empty text is not said."""
    return AfterValidator(lambda text: read(text) if text else "")


def _read_limit(read: Callable[[str], str]) -> AfterValidator:
    """Return the same for a limit, of which "0" says that there is no limit."""
    return _read(lambda text: read(text) or UNLIMITED)


def match_text(pattern: str, meaning: str) -> AfterValidator:
    """Return a check that takes the whole texts of a pattern; `meaning` is what an error expects."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(meaning)
        return text

    return AfterValidator(check)


def match_stated(pattern: str, meaning: str) -> AfterValidator:
    """Return the same check, which takes an empty text too: the value is not said."""
    return match_text(f"({pattern})?", meaning)


def _read_count(value: object) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", str(value)):
        raise ValueError("a whole number above 0")
    return int(str(value))


def _read_variable(value: object) -> str | FromShell:
    if value in ({"from": FROM_SHELL}, FromShell()):
        return FromShell()
    if not isinstance(value, str):
        raise ValueError(f"text, or {{from: {FROM_SHELL}}} for the shell's own value")
    return value


Text = Annotated[str, match_text(r"(?s).+", "text")]
Name = Annotated[str, match_text(NAME, "a name of letters, digits, _ . and -")]
# All values of a file are text.
Count = Annotated[int, BeforeValidator(_read_count), WithJsonSchema({"type": "string"})]
OptionalCount = Annotated[
    int, BeforeValidator(lambda value: _read_count(value) if value else 0), WithJsonSchema({"type": "string"})
]
Variable = Annotated[
    Any,
    PlainValidator(_read_variable),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"from": {"const": FROM_SHELL}},
                    "required": ["from"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
JobName = Annotated[str, match_stated(NAME, "at most 63 letters, digits, _ . and -")]
VariableName = Annotated[str, match_text("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
Cpus = Annotated[str, _read_limit(read_cpus)]
Memory = Annotated[str, _read_limit(read_memory)]
Gpus = Annotated[str, _read_limit(read_gpus)]
Size = Annotated[str, _read(read_size)]
InstanceType = Annotated[str, match_stated("[A-Za-z0-9][A-Za-z0-9_.-]*", "an instance type, such as ml.c5.xlarge")]
