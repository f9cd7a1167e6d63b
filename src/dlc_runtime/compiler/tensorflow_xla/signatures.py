"""What a tf.function is traced for: its arguments as TensorFlow tells them apart, and which one made it trace again."""

from __future__ import annotations

import inspect

from dlc_runtime.compiler.report.causes import OTHER, SHAPE, Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VALUE = "pass it as a tensor (tf.constant), or keep it in a tf.Variable: each new Python value is traced anew"
OBJECT = "create it once, outside of the loop, and pass the same object each time"
KIND = "pass the same type in every step (tf.cast)"
DEEPEST, LONGEST = 4, 200


class Leaf:
    """A part of an argument: what it is, and as what it is told apart."""

    def __init__(self, kind: str, text: str, key: object) -> None:
        self.kind, self.text, self.key = kind, text[:LONGEST], key


def signature(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Leaf]:
    """By name, such as `batch[0]`."""
    leaves: dict[str, Leaf] = {}
    for name, value in bound(function, arguments, named).items():
        describe(name, value, leaves, 0)
    return leaves


def bound(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*arguments, **named).arguments)
    except (TypeError, ValueError):
        return {**{f"argument {place}": value for place, value in enumerate(arguments)}, **named}


def describe(name: str, value: Any, leaves: dict[str, Leaf], depth: int) -> None:
    if isinstance(value, (list, tuple)) and depth < DEEPEST:
        for place, part in enumerate(value):
            describe(f"{name}[{place}]", part, leaves, depth + 1)
    elif isinstance(value, dict) and depth < DEEPEST:
        for key, part in value.items():
            describe(f"{name}[{key!r}]", part, leaves, depth + 1)
    else:
        leaves[name] = leaf(value)


def leaf(value: Any) -> Leaf:
    element = getattr(value, "element_spec", None)
    if element is not None:
        return Leaf("shape", f"an iterator over {element}", str(element))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        kind, shape = getattr(value.dtype, "name", str(value.dtype)), tuple(value.shape)
        return Leaf("shape", f"a {kind} tensor of shape {shape}", (kind, shape))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return Leaf("number", f"the Python value {value!r}", (type(value), value))
    return Leaf("object", f"another {type(value).__name__}", id(value))


def cause_of_tracing(old: dict[str, Leaf] | None, new: dict[str, Leaf]) -> Cause:
    for name in new:
        if old is None or name not in old or old[name].key == new[name].key:
            continue
        before, after = old[name], new[name]
        text = f"'{name}' is {after.text}"
        if after.kind == "object":
            return Cause("object", f"{text} than before", OBJECT)
        same_type = after.kind != "shape" or same_dtype(before, after)
        remedy = {"shape": SHAPE if same_type else KIND, "number": VALUE}[after.kind]
        return Cause(after.kind if same_type else "type", f"{text}, it was {before.text}", remedy)
    if old is not None and set(old) != set(new):
        return Cause("structure", f"the arguments are {', '.join(new)}, they were {', '.join(old)}", OBJECT)
    return Cause("other", "it was traced again for the same arguments", OTHER)


def same_dtype(before: Leaf, after: Leaf) -> bool:
    keys = (before.key, after.key)
    return not all(isinstance(key, tuple) for key in keys) or keys[0][0] == keys[1][0]  # type: ignore[index]
