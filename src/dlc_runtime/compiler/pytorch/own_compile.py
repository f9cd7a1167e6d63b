"""Notices that the script calls torch.compile itself: then its modules are left to it, and get no hooks of ours."""

from __future__ import annotations

import functools

import torch

from dlc_runtime.compiler.base.places import is_users, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class OwnCompile:
    def __init__(self, noticed: Callable[[str], None]) -> None:
        self._noticed = noticed
        self.listening = False

    def listen(self) -> None:
        original = torch.compile
        self.listening = True

        @functools.wraps(original)
        def compile_and_notice(*arguments: Any, **named: Any) -> Any:
            if self.listening:
                self._notice(arguments[0] if arguments else named.get("model"))
            return original(*arguments, **named)

        torch.compile = compile_and_notice

    def _notice(self, target: Any) -> None:
        module = getattr(target, "__self__", target)
        if isinstance(module, torch.nn.Module):
            self._noticed(type(module).__name__)
        elif callable(target) and is_users(place_of(target)[0]):  # libraries compile functions of theirs
            self._noticed(getattr(target, "__qualname__", type(target).__name__))
