"""A digest of the code that a model runs, in the user's files: what a kept decision was measured with.

A changed line gives another digest, a moved line or another comment the same. Code of packages is left out: the image
and their versions stand for it. Standard library only.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types

from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

DIGITS = 12
CACHED = type(functools.lru_cache(maxsize=1)(repr))
# What Python 3.13 notes of a class: a line, and names in another order in each process.
NOTES = ("__firstlineno__", "__static_attributes__")
# Their repr is the same in each process.
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def digest_code(roots: Iterable[Any]) -> str:
    """Hash classes and functions of the user's files, and all that they name there: functions, classes, constants."""
    lines: set[str] = set()
    waiting, seen = list(roots), {}
    while waiting:
        each = unwrap(waiting.pop())
        if id(each) in seen:
            continue
        # An object that lives on keeps its id.
        seen[id(each)] = each
        named = named_by(each)
        lines.update(f"{name} = {text}" for name, value in named if (text := text_of_constant(value)))
        waiting.extend(value for _, value in named)
        if isinstance(each, types.FunctionType) and is_user_code(each.__code__.co_filename):
            lines.add(text_of_code(each.__code__))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:DIGITS]


def unwrap(value: Any) -> Any:
    """Return the function inside of methods, partial calls and properties.

    Types are compared, no attribute of an unknown object is asked for: some make what they are asked for.
    """
    while isinstance(value, (types.MethodType, staticmethod, classmethod, functools.partial, property, CACHED)):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, property):
            value = value.fget
        else:
            value = value.__wrapped__ if isinstance(value, CACHED) else value.__func__
    return value


def named_by(value: Any) -> list[tuple[str, Any]]:
    """Return names and what they stand for: of a class its members, of a function what its code can reach."""
    if isinstance(value, type):
        members = [item for base in value.__mro__ if is_user_class(base) for item in vars(base).items()]
        return [(name, known) for name, known in members if name not in NOTES]
    if not isinstance(value, types.FunctionType):
        return []
    # What functools.wraps notes: a package's decorator stands around a function of the user's.
    wrapped = [("wraps", vars(value)["__wrapped__"])] if "__wrapped__" in vars(value) else []
    if not is_user_code(value.__code__.co_filename):
        return wrapped
    names = {name for code in nested_codes(value.__code__) for name in code.co_names}
    found = [(name, value.__globals__[name]) for name in sorted(names) if name in value.__globals__]
    modules = [known for _, known in found if is_user_module(known)]
    found += [(name, vars(module)[name]) for module in modules for name in sorted(names) if name in vars(module)]
    found += [(f"{value.__qualname__}: {name}", known) for name, known in bound_values(value)]
    return found + wrapped


def bound_values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield defaults of parameters, and values of an outer function."""
    yield from enumerate_defaults(function)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue


def enumerate_defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(function.__defaults__ or ()):
        yield f"default {number}", value
    yield from (function.__kwdefaults__ or {}).items()


def is_user_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and is_user_code(getattr(value, "__file__", None) or "")


def is_user_class(value: type) -> bool:
    return is_user_module(sys.modules.get(value.__module__))


def text_of_constant(value: Any) -> str:
    """Return "" for what is no constant."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(isinstance(each, PLAIN) for each in value):
        return repr(value)
    return ""


def text_of_code(code: types.CodeType) -> str:
    """Say what the code does, without its file and lines."""
    parts = []
    for each in nested_codes(code):
        # A set has another order in each process.
        constants = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in each.co_consts]
        known = [repr(c) for c in constants if not isinstance(c, types.CodeType)]
        parts.append(f"{each.co_name} {each.co_code.hex()} {each.co_names} {each.co_varnames} {known}")
    return " | ".join(parts)


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested_codes(constant)
