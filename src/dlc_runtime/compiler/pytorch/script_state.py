"""What a script's code changes outside of its modules: attributes of classes, globals, generators of random numbers.

A forward that runs once more must not leave a trace there. Only what the code of the script's classes names is kept.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import types

import torch

from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Callable

# What Python calls itself, and what is no value of the script's.
CODE = (types.FunctionType, types.ModuleType, type, staticmethod, classmethod, property, functools.cached_property)


class Names:
    """Attributes of a class, globals or variables of an outer function, and what they stood for."""

    def __init__(self, read: Callable[[], Mapping[str, Any]], put: Callable[[str, Any], None], names: set[str]) -> None:
        self._read, self._put = read, put
        held = read()
        self.values = {name: held[name] for name in names if name in held and is_value(name, held[name])}

    def put_back(self) -> None:
        held = self._read()
        for name, value in self.values.items():
            if held.get(name) is not value:
                self._put(name, value)


def is_value(name: str, value: Any) -> bool:
    return not name.startswith("__") and not isinstance(value, CODE) and not hasattr(type(value), "__get__")


def names_of(kind: type) -> Iterator[Names]:
    """Yield attributes of a class of the script's and of its bases, and what their methods name besides."""
    for part in kind.__mro__:
        if is_user_code(getattr(sys.modules.get(part.__module__), "__file__", None) or ""):
            yield Names(functools.partial(vars, part), functools.partial(setattr, part), set(vars(part)))
            for function in functions_of(part):
                held = function.__globals__
                yield Names(
                    functools.partial(getattr, function, "__globals__"), held.__setitem__, names_in(function.__code__)
                )
                cells = cells_of(function)
                yield Names(functools.partial(contents, cells), functools.partial(fill, cells), set(cells))


def functions_of(kind: type) -> list[types.FunctionType]:
    """Return the methods of a class, and functions of the script's that they name."""
    waiting = [value for value in vars(kind).values() if isinstance(value, types.FunctionType)]
    found = {id(function): function for function in waiting}
    while waiting:
        function = waiting.pop()
        named = (*map(function.__globals__.get, names_in(function.__code__)), *contents(cells_of(function)).values())
        for value in named:
            if isinstance(value, types.FunctionType) and id(value) not in found and is_of_script(value):
                found[id(value)] = value
                waiting.append(value)
    return list(found.values())


def cells_of(function: types.FunctionType) -> dict[str, types.CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))


def contents(cells: dict[str, types.CellType]) -> dict[str, Any]:
    """Return what stands in the variables of an outer function; one that is not set yet is left out."""
    found = {}
    for name, cell in cells.items():
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def fill(cells: dict[str, types.CellType], name: str, value: Any) -> None:
    cells[name].cell_contents = value


def is_of_script(function: types.FunctionType) -> bool:
    return is_user_code(function.__code__.co_filename)


def names_in(code: types.CodeType) -> set[str]:
    """Return the names that code and the functions in it ask for."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(names_in, inner))


def is_generator(value: Any) -> bool:
    """Tell whether it is a source of random numbers of the script's own."""
    if isinstance(value, (random.Random, torch.Generator)):
        return not isinstance(value, random.SystemRandom)
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(value, (numpy.Generator, numpy.RandomState))


def state_of(generator: Any) -> Callable[[], None]:
    """Return what puts a generator's state back."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if isinstance(generator, torch.Generator):
        return functools.partial(generator.set_state, generator.get_state())
    if hasattr(generator, "bit_generator"):
        return functools.partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return functools.partial(generator.set_state, generator.get_state())
