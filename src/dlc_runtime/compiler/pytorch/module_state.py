"""What a forward changes besides its outputs, kept and put back: random numbers, buffers, whatever a module keeps."""

from __future__ import annotations

import random
import sys
from collections import deque

import torch

from dlc_runtime.compiler.pytorch.script_state import is_generator, names_of, state_of
from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable

# Bytes of copies, beside those of buffers: a frozen model can be as large as the memory.
MOST_BYTES = 1 << 30
# Lists, dictionaries and objects that are looked into.
MOST_HELD = 100_000
CONTAINERS = (list, dict, deque, set)


class ModuleState:
    """All that a module's parts and their classes hold, in lists, in objects of the script's classes, and so on.

    What its tensors hold is copied if a forward may write into it: buffers, parameters that are not trained, others
    without gradients. It is put back only where it has changed.
    """

    def __init__(self, module: torch.nn.Module, inputs: Iterable[torch.Tensor] = ()) -> None:
        self._random = RandomState(everything=True)
        self._seen: dict[int, Any] = {}
        self._held: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        # What puts back attributes of classes, globals, and own generators of random numbers.
        self._others: list[Callable[[], None]] = []
        self._bytes = 0
        for tensor in (*module.buffers(), *inputs):
            self._add_tensor(tensor, always=True)
        self._add_all(module.modules())
        self._names = {id(buffer): name for name, buffer in module.named_buffers()}

    def restore(self) -> None:
        self._random.restore()
        for put_other_back in self._others:
            put_other_back()
        for holder, content in self._held:
            put_back(holder, content)
        for tensor, data, value in self._tensors:
            if tensor.data_ptr() != data.data_ptr():
                tensor.data = data
            if value is not None and not torch.equal(data, value):
                # A graph that still needs its backward does not count this as a change.
                data.copy_(value)

    def written(self) -> dict[str, tuple[torch.Tensor | None, torch.Tensor]]:
        """Return by name what tensors held before and hold now, where that is another; also new tensors."""
        found: dict[str, tuple[torch.Tensor | None, torch.Tensor]] = {}
        for number, (tensor, data, value) in enumerate(self._tensors):
            if value is not None and not (tensor.data_ptr() == data.data_ptr() and is_equal(value, tensor.data)):
                name = self._names.get(id(tensor), f"a tensor that it is given or keeps ({number})")
                found[name] = (value if value.shape == tensor.shape else None, tensor.data.clone())
        for number, (holder, content) in enumerate(self._held):
            for key, now in items_of(vars(holder) if is_object(holder) else holder):
                before = dict(items_of(content)).get(key)
                if isinstance(now, torch.Tensor) and now is not before and now.layout is torch.strided:
                    same = isinstance(before, torch.Tensor) and before.shape == now.shape and before.dtype == now.dtype
                    name = f"{key} of {type(holder).__name__} ({number})"
                    found[name] = (
                        before.detach() if isinstance(before, torch.Tensor) and same else None,
                        now.detach().clone(),
                    )
        return found

    def _add_all(self, values: Iterable[Any]) -> None:
        waiting = list(values)
        while waiting and len(self._held) < MOST_HELD:
            value = waiting.pop()
            if isinstance(value, torch.Tensor):
                self._add_tensor(value)
            elif id(value) not in self._seen:
                self._seen[id(value)] = value
                if is_generator(value):
                    self._others.append(state_of(value))
                else:
                    waiting.extend(self._add_holder(value))
                if is_object(value):
                    waiting.extend(self._add_class(type(value)))

    def _add_holder(self, value: Any) -> list[Any]:
        """Remember what a list, an object and the like holds; return that."""
        if isinstance(value, tuple):
            return [each for each in value if may_hold(each)]
        content = dict(vars(value)) if is_object(value) else type_of_content(value)(value)
        self._held.append((value, content))
        return [each for each in (content.values() if isinstance(content, dict) else content) if may_hold(each)]

    def _add_class(self, kind: type) -> list[Any]:
        """Remember what the script's code keeps outside of its objects; return that."""
        if id(kind) in self._seen:
            return []
        self._seen[id(kind)] = kind
        found = list(names_of(kind))
        self._others.extend(each.put_back for each in found)
        return [value for each in found for value in each.values.values() if may_hold(value)]

    def _add_tensor(self, tensor: torch.Tensor, always: bool = False) -> None:
        if id(tensor) in self._seen or tensor.layout is not torch.strided or tensor.is_meta:
            return
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return
        self._seen[id(tensor)] = tensor
        data, copied = tensor.data, None
        if not tensor.requires_grad and (always or self._bytes + data.nbytes <= MOST_BYTES):
            self._bytes += 0 if always else data.nbytes
            copied = data.clone()
        self._tensors.append((tensor, data, copied))


def is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two hold the same numbers; what is not a number is like itself."""
    if torch.equal(one, other):
        return True
    alike = one.is_floating_point() and one.shape == other.shape and one.dtype == other.dtype
    return bool(alike and torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True))


def items_of(content: Any) -> list[tuple[Any, Any]]:
    """Return what is held by key or place; what has neither is left out."""
    if isinstance(content, dict):
        return list(content.items())
    return list(enumerate(content)) if isinstance(content, list) else []


def may_hold(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, tuple, *CONTAINERS)) or is_object(value) or is_generator(value)


def is_object(value: Any) -> bool:
    """Tell whether it is a module, or an object of a class of the script's: others may be a thread's, or the world."""
    if isinstance(value, torch.nn.Module):
        return True
    if isinstance(value, (type, *CONTAINERS)) or not hasattr(value, "__dict__"):
        return False
    return is_user_code(getattr(sys.modules.get(type(value).__module__), "__file__", None) or "")


def type_of_content(value: Any) -> type:
    return next(kind for kind in (dict, set, list) if isinstance(value, kind) or kind is list)


def put_back(holder: Any, content: Any) -> None:
    """Give a holder the content that it had, if it has another."""
    if is_object(holder):
        held = vars(holder)
        held.update((name, value) for name, value in content.items() if held.get(name) is not value)
    elif not is_same(type(content)(holder), content):
        holder.clear()
        holder.update(content) if isinstance(content, (dict, set)) else holder.extend(content)


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two hold the same things in the same order."""
    if isinstance(one, set):
        return len(one) == len(other) and {*map(id, one)} == {*map(id, other)}
    if isinstance(one, dict):
        return is_same([*one, *one.values()], [*other, *other.values()])
    return len(one) == len(other) and all(left is right for left, right in zip(one, other))


class RandomState:
    """The state of torch's random numbers; `everything`: of Python's and numpy's too."""

    def __init__(self, everything: bool = False) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        self._python = random.getstate() if everything else None
        self._numpy = sys.modules["numpy.random"].get_state() if everything and "numpy.random" in sys.modules else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)
        if self._python is not None:
            random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)

    def equals(self, other: RandomState) -> bool:
        """Tell whether torch's random numbers go on alike."""
        if not torch.equal(self._cpu, other._cpu):
            return False
        return self._cuda is None or other._cuda is None or torch.equal(self._cuda, other._cuda)
