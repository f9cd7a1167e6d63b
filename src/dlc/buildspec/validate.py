"""Marked nodes to models; pydantic's errors become problems with the place, the expected and the found value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dlc.buildspec.models import MEANINGS
from dlc.buildspec.problems import Problem, did_you_mean
from dlc.buildspec.yaml_marks import Node
from dlc.core.environment import shown, without_passwords

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], node: Node) -> tuple[M | None, list[Problem]]:
    """The model of `node`, or None and every problem that keeps it from being one."""
    try:
        return model.model_validate(node.plain()), []
    except ValidationError as error:
        return None, [_problem(details, model, node) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, model: type[BaseModel], root: Node) -> Problem:
    # pydantic appends "[key]" where the key itself is wrong.
    steps = tuple(step for step in details["loc"] if step != "[key]")
    path = _dotted(steps)
    node = root.at(steps)
    if node is None:
        parent = root.at(steps[:-1]) or root
        return Problem(parent.mark, path, f"a value for {steps[-1]}", "none")
    mark = node.key_mark or node.mark
    if details["type"] == "extra_forbidden":
        known = sorted(_model_at(model, steps[:-1]).model_fields)
        name = str(steps[-1])
        return Problem(mark, path, f"one of {', '.join(known)}", f"unknown key {name!r}", did_you_mean(name, known))
    expected = _expected(details)
    found = describe(node, is_address="address" in expected)
    return Problem(mark if "[key]" in details["loc"] else node.mark, path, expected, found)


def _expected(details: ErrorDetails) -> str:
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


def describe(node: Node, *, is_address: bool = False) -> str:
    """What stands at a node, in words short enough for one line. No address is shown with its password."""
    if isinstance(node.value, tuple):
        return f"a list of {len(node.value)}"
    if not isinstance(node.value, str):
        return "a mapping"
    text = shown(node.value) if is_address else without_passwords(node.value)
    return repr(text[:80]) if node.value else "nothing"


def _dotted(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _model_at(model: type[BaseModel], steps: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that describes the mapping at `steps`, for the names it knows."""
    kind: Any = model
    for step in steps:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(step)].annotation
        else:  # dict[key, value] or tuple[item, ...]
            kind = get_args(kind)[0 if isinstance(step, int) else 1]
    found: type[BaseModel] = kind
    return found
