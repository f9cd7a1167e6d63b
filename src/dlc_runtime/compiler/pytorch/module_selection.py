"""Selects which modules are compiled, by watching the first steps, and says why others stay eager."""

from __future__ import annotations

import functools
import sys
import threading
import weakref

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from dlc_runtime.compiler.hooks import IdentitySet, never_raises
from dlc_runtime.compiler.pytorch.comparison import autocast_formats
from dlc_runtime.compiler.source_locations import (
    class_name,
    find_create_graph_around,
    find_create_graph_in,
    find_user_line,
    is_user_code,
    location_of,
    note_create_graph,
    seen_create_graph,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar

RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


class EagerReason:
    """A module that stays eager."""

    def __init__(self, module: torch.nn.Module, reason: str, remedy: str = "", wanted: bool = True) -> None:
        self.module = class_name(module)
        self.reason = reason
        self.remedy = remedy
        self.wanted = wanted  # strict mode fails on it


class Selection:
    """Modules to compile, and those that stay eager with the reason."""

    # Lines of the script that call what was chosen, in all selections of the process.
    callers: ClassVar[weakref.WeakKeyDictionary[torch.nn.Module, tuple[str, int]]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self.chosen: list[torch.nn.Module] = []
        self.eager_reasons: list[EagerReason] = []
        self.wrappers: list[torch.nn.Module] = []  # DistributedDataParallel around what is chosen
        # Shapes and formats of each chosen root.
        self.batches: list[list[str]] = []

    def wrap(self, module: torch.nn.Module) -> None:
        if module is not unwrap_ddp(module):
            self.wrappers.append(module)


def select_modules(watch: Watch) -> Selection:
    selection = Selection()
    for root in watch.roots.values():
        if next(root.module.parameters(), None) is None:
            continue  # a loss function
        if is_compiled_by_us(unwrap_ddp(root.module)):
            # Compiled before, by the process that this one was forked from.
            continue
        reason = reason_for_eager(root, watch)
        if reason:
            selection.eager_reasons.append(reason)
        else:
            selection.wrap(root.module)
            selection.batches.append(root.batch)
            select_parts(unwrap_ddp(root.module), selection, root.caller)
    return selection


def reason_for_eager(root: RootModule, watch: Watch) -> EagerReason | None:
    module = root.module
    if not watch.trained(module):
        return EagerReason(module, "the script does not train it: no optimizer has its parameters", wanted=False)
    if not root.with_gradients:
        return EagerReason(module, "called without gradients only", wanted=False)
    if root.twice:
        return EagerReason(
            module, "the script differentiates its backward (create_graph=True), which cannot be compiled"
        )
    place = "" if root.create_graph in seen_create_graph else root.create_graph
    place = place or find_create_graph_in_forward(module)
    if place:
        return EagerReason(
            module,
            f"{place} uses create_graph=True in the function that calls it, which a compiled module cannot do",
            "move what needs it into a function of its own that also calls the model, or remove it",
        )
    return reason_against_compiling(module)


def find_create_graph_in_forward(module: torch.nn.Module) -> str:
    """Return file and line of create_graph=True in the forward of a part, which differentiates what is in it."""
    codes = (getattr(kind.forward, "__code__", None) for kind in {type(part) for part in module.modules()})
    return next(filter(None, (find_create_graph_in(code) for code in codes if code is not None)), "")


def reason_against_compiling(module: torch.nn.Module) -> EagerReason | None:
    """Return why a module cannot be compiled, whatever the script does with it."""
    if not hasattr(getattr(torch, "compiler", None), "is_compiling"):
        return EagerReason(
            module, f"torch {torch.__version__} cannot compile a module in place", "use torch 2.3 or newer"
        )
    if any(is_compiled_by_script(part) for part in module.modules()):
        return EagerReason(module, "the script compiles it itself", wanted=False)
    if isinstance(module, torch.nn.DataParallel):
        return EagerReason(module, "DataParallel copies it in every step", "use DistributedDataParallel")
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        return EagerReason(module, "it is TorchScript", "train the module it was scripted from")
    if any(parameter.device.type in ("xla", "meta") for parameter in module.parameters()):
        return EagerReason(module, "it is not on a device that inductor compiles for")
    return None


def is_compiled_by_script(module: torch.nn.Module) -> bool:
    if module.__dict__.get("_compiled_call_impl") is not None and not is_compiled_by_us(module):
        return True
    frames = sys.modules.get("torch._dynamo.eval_frame")  # not imported: nothing was compiled
    return frames is not None and isinstance(module, frames.OptimizedModule)


def is_compiled_by_us(module: torch.nn.Module) -> bool:
    return type(module.__dict__.get("_compiled_call_impl")).__module__.startswith("dlc_runtime.")


def unwrap_ddp(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside DistributedDataParallel, which runs it and tells Dynamo about its buckets."""
    while isinstance(module, torch.nn.parallel.DistributedDataParallel):
        module = module.module
    return module


def select_parts(module: torch.nn.Module, selection: Selection, caller: tuple[str, int]) -> None:
    """Choose the module; or, if it cannot be one graph, its largest parts that can. `caller`: a line of the script."""
    found = [module] if is_one_graph(module) else list(compilable_parts(module))
    selection.chosen.extend(found)
    selection.callers.update(dict.fromkeys(found, caller))
    recurrent = {class_name(part) for part in module.modules() if isinstance(part, RECURRENT)}
    if recurrent:
        rest = f"; compiled: {', '.join(class_name(part) for part in found)}" if found else ""
        selection.eager_reasons.append(
            EagerReason(module, f"Dynamo does not trace {', '.join(sorted(recurrent))}{rest}")
        )


def is_one_graph(module: torch.nn.Module) -> bool:
    """Tell whether Dynamo makes one graph: it traces no recurrent layer, and stops at hooks of sharded parts."""
    parts = list(module.modules())
    return not any(isinstance(part, RECURRENT) for part in parts) and not any(is_sharded(part) for part in parts[1:])


def is_sharded(module: torch.nn.Module) -> bool:
    """Look for fully_shard's class, which was in several places."""
    return any(base.__name__ == "FSDPModule" for base in type(module).__mro__)


def compilable_parts(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    if not is_one_graph(module):
        for child in module.children() if not isinstance(module, RECURRENT) else ():
            yield from compilable_parts(child)
    elif is_sharded(module) or sum(1 for _ in trained_parts(module.modules())) > 1:  # one layer alone gains nothing
        yield module


def trained_parts(parts: Iterable[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    return (part for part in parts if any(p.requires_grad for p in part.parameters(recurse=False)))


class UserCompileListener:
    """Tells of each torch.compile of the script's own."""

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
        elif callable(target) and is_user_code(location_of(target)[0]):  # libraries compile functions of theirs
            self._noticed(getattr(target, "__qualname__", type(target).__name__))


MOST_WATCHED = 8  # parameters of a module
# One change may be the loading of a checkpoint.
UPDATES = 2


class HandUpdates:
    """Tells whether the script changes a module's weights itself, so that no optimizer's step is seen."""

    def __init__(self, module: torch.nn.Module) -> None:
        # Not a sharded one: comparing it would be a message to other ranks.
        plain = (p for p in module.parameters() if type(p) is torch.nn.Parameter)
        trained = sorted((p for p in plain if p.requires_grad), key=torch.Tensor.numel)
        self._parameters = trained[:MOST_WATCHED]
        self._before: list[torch.Tensor] = []
        self._updates = 0
        self.backward = False
        """Whether a backward went through the module since the last call."""

    def called(self) -> bool:
        """Return whether the weights have changed often enough after a backward; call it as the module is called."""
        if self.backward or not self._before:
            current = [parameter.detach().clone() for parameter in self._parameters]
            pairs = zip(current, self._before) if self.backward else ()
            self._updates += any(not torch.equal(one, other) for one, other in pairs)
            self._before, self.backward = current, False
        return self._updates >= UPDATES


NO_BACKWARD = -1
# Tensors of one output that are watched for a second backward.
MOST_OUTPUTS = 32


class RootModule:
    """A module that the script calls itself."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.with_gradients = False
        self.twice = False  # its backward was itself differentiated
        # Inputs and outputs of its first call with gradients, and its autocast.
        self.batch: list[str] = []
        # File and line in a function that calls it.
        self.create_graph = ""
        # The script's line that called it first.
        self.caller = find_user_line()
        self.thread = threading.get_ident()
        self.by_hand = HandUpdates(module)

    def note_backward(self, _gradient: torch.Tensor) -> None:
        self.by_hand.backward = True
        # In a backward this is so with create_graph=True only.
        if torch.is_grad_enabled():
            self.twice = True
            # The backward may run in a thread of its own.
            note_create_graph(find_create_graph_around(self.thread))


class Watch:
    """Hooks on every module during the first steps: which modules are roots, and which train."""

    def __init__(self, fail: Callable[[Exception], None], by_hand: Callable[[torch.nn.Module], None]) -> None:
        self.fail = fail
        self.noticed_by_hand = by_hand
        self.roots: dict[int, RootModule] = {}
        # Parameters of the optimizers that stepped.
        self.stepped = IdentitySet()
        self.autocast = False  # some module ran in it
        self._thread = threading.local()
        self._handles: list[Any] = []

    def begin(self) -> None:
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._begin_step),
        ]

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def note_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.stepped.add_all(parameters_of(optimizer))

    @never_raises
    def _begin_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
        # LBFGS calls the model in its step, and changes the weights between the calls: that is no work of the script's.
        self.note_step(optimizer)

    def waiting(self) -> bool:
        """Tell whether a module was called with gradients and no optimizer has stepped its parameters yet."""
        return any(root.with_gradients and not self.trained(root.module) for root in self.roots.values())

    def trained(self, module: torch.nn.Module) -> bool:
        return any(parameter in self.stepped for parameter in module.parameters())

    @never_raises
    def _enter(self, module: torch.nn.Module, _arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self.autocast = self.autocast or torch.is_autocast_enabled()
        stack = self._stack()
        if (
            not stack and torch._C._current_graph_task_id() == NO_BACKWARD
        ):  # checkpointing calls modules in the backward
            root = self.roots.setdefault(id(module), RootModule(module))
            root.with_gradients |= torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
            root.create_graph = root.create_graph or find_create_graph_around()
            if not self.trained(module) and root.by_hand.called():
                self.noticed_by_hand(module)
        stack.append(module)

    @never_raises
    def _leave(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        # A module that raised before it was entered in full.
        while stack and stack.pop() is not module:
            pass
        root = self.roots.get(id(stack[0] if stack else module))
        # Outputs of parts count too: a forward may differentiate them.
        if root is not None:
            if not stack and not root.batch and torch.is_grad_enabled():
                root.batch = [*describe_tensors(arguments), *describe_tensors(output), *map(str, autocast_formats())]
            self._watch_backward(root, output)

    def _watch_backward(self, root: RootModule, output: Any) -> None:
        if torch._C._get_tracing_state() is not None or torch._C._functorch.peek_interpreter_stack() is not None:
            # What is traced or transformed is no training.
            return
        for leaf in torch.utils._pytree.tree_flatten(output)[0][:MOST_OUTPUTS]:
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(root.note_backward)

    def _stack(self) -> list[torch.nn.Module]:
        stack: list[torch.nn.Module] = self._thread.__dict__.setdefault("stack", [])
        return stack


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def describe_tensors(tree: Any) -> list[str]:
    """Return shapes and number formats of the tensors in a tree."""
    leaves = torch.utils._pytree.tree_flatten(tree)[0][:MOST_OUTPUTS]
    return [f"{tuple(leaf.shape)} {leaf.dtype}" for leaf in leaves if isinstance(leaf, torch.Tensor)]


def is_inner_step() -> bool:
    """Tell whether another optimizer's step called the step that has just ended.

    The stack tells, and no count of beginnings: a step that raises, as one without memory does, has no end to count.
    """
    frame, step = sys._getframe(), None
    while (outer := frame.f_back) is not None:
        frame = outer
        # This is torch's own function around each step; it calls our hook.
        if frame.f_globals is vars(optimizers):
            if frame.f_code is step:
                return True
            step = step or frame.f_code
    return False
