"""A node validated by a pydantic model: every problem has its line and column, and the key that was meant."""

from __future__ import annotations

import re
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from dlc.checked_yaml.patterns import MEANINGS
from dlc.checked_yaml.problems import Problem, did_you_mean
from dlc.checked_yaml.yaml_layers import Node
from dlc.core.environment import hide_password, hide_passwords

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)


class Model(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def validate_node(model: type[M], node: Node) -> tuple[M | None, list[Problem]]:
    """Return the model of `node`, or None and every problem that keeps it from being a model."""
    try:
        return model.model_validate(node.plain()), []
    except ValidationError as error:
        return None, [_explain_error(details, model, node) for details in error.errors(include_url=False)]


def _explain_error(details: ErrorDetails, model: type[BaseModel], root: Node) -> Problem:
    # pydantic appends "[key]" if the key itself is wrong.
    steps = tuple(step for step in details["loc"] if step != "[key]")
    path = _join_path(steps)
    node = root.at(steps)
    if node is None:
        parent = root.at(steps[:-1]) or root
        return Problem(parent.mark, path, f"a value for {steps[-1]}", "none")
    mark = node.key_mark or node.mark
    if details["type"] == "extra_forbidden":
        fields = _find_model(model, steps[:-1]).model_fields
        known = sorted(field.alias or name for name, field in fields.items())
        name = str(steps[-1])
        return Problem(mark, path, f"one of {', '.join(known)}", f"unknown key {name!r}", did_you_mean(name, known))
    expected = _describe_expected(details)
    if "[key]" in details["loc"]:
        return Problem(mark, path, expected, repr(steps[-1]), _find_meant(str(steps[-1]), details))
    found = describe_node(node, is_address="address" in expected)
    return Problem(node.mark, path, expected, found, _find_meant(str(node.value), details))


def _find_meant(word: str, details: ErrorDetails) -> str:
    """Return `did you mean 'x'?` for a word out of a few that are allowed."""
    allowed = details.get("ctx", {}).get("expected", "") if details["type"] == "literal_error" else ""
    return did_you_mean(word, filter(None, re.findall(r"'([^']*)'", allowed)))


def _describe_expected(details: ErrorDetails) -> str:
    context: dict[str, Any] = details.get("ctx", {})
    if details["type"] == "string_pattern_mismatch":
        return MEANINGS[context["pattern"]]
    if details["type"] in ("tuple_type", "list_type"):
        return "a list"
    if details["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return "a mapping"
    if details["type"] == "string_type":
        return "text"
    if details["type"] == "value_error":
        return str(context["error"])
    return details["msg"].replace("Input should be ", "")


def describe_node(node: Node, *, is_address: bool = False) -> str:
    """Describe the value of a node, short enough for one line. An address is shown without its password and query."""
    if isinstance(node.value, tuple):
        return f"a list of {len(node.value)}"
    if not isinstance(node.value, str):
        return "a mapping"
    # What is behind the question mark may be a token.
    text = re.sub(r"\?.+", "?...", hide_password(node.value)) if is_address else hide_passwords(node.value)
    return repr(text[:80]) if node.value else "nothing"


def _join_path(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _find_model(model: type[BaseModel], steps: tuple[str | int, ...]) -> type[BaseModel]:
    """Find the model that describes the mapping at `steps`, for the names that it knows."""
    kind: Any = model
    for step in steps:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(step)].annotation
        else:
            # This is dict[key, value] or tuple[item, ...].
            kind = get_args(kind)[0 if isinstance(step, int) else 1]
        # A mapping that may be absent.
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
    found: type[BaseModel] = kind
    return found
