"""Compiles attention without the masks that hide nothing, as eager code computes it.

A mask rules out the fastest kernels of scaled_dot_product_attention. transformers gives one only if `is_causal`
cannot say the same. For that it reads the mask; while a graph is captured it cannot, and always gives one. So the part
of the captured graph that makes the masks is run with the batch at hand before the graph is compiled. Attention whose
mask shows everything, or everything that is not later, is compiled without it. Before each later call that part is run
again. A batch whose mask says more (padding, packed sequences) runs the graph as it was captured, not compiled; if
more than a few do, everything is compiled anew with its masks.
"""

from __future__ import annotations

import functools
import weakref

import torch

from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.pytorch.compile_once import compile_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from torch.fx import GraphModule, Node

ATTENTION = torch.nn.functional.scaled_dot_product_attention
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
# A mask that shows all positions; a mask that shows no later position.
FULL, CAUSAL = "full", "causal"
# Operations that make the masks of a graph.
MOST_MAKERS = 500
# A graph that needed its masks this often, and in more than one of SHARE calls, is worth compiling with them.
FEW, SHARE = 3, 10
# What masks are made with. These operations change nothing and draw no random number, so they may run twice.
PURE = frozenset((
    "__and__", "__eq__", "__ge__", "__getitem__", "__gt__", "__invert__", "__le__", "__lt__", "__ne__", "__or__",
    "abs", "add", "all", "and_", "any", "arange", "bitwise_and", "bitwise_not", "bitwise_or", "bool", "broadcast_to",
    "cat", "clone", "contiguous", "cumsum", "detach", "diff", "dim", "eq", "expand", "expand_as", "finfo", "flatten",
    "float", "floordiv", "full", "full_like", "ge", "getattr", "getitem", "gt", "int", "inv", "invert", "le",
    "logical_and", "logical_not", "logical_or", "long", "lt", "masked_fill", "mul", "ndim", "ne", "neg", "new_full",
    "new_ones", "new_tensor", "new_zeros", "not_", "ones", "ones_like", "or_", "pad", "permute", "repeat", "reshape",
    "rsub", "select", "size", "slice", "squeeze", "stack", "sub", "sum", "tensor", "to", "transpose", "tril", "triu",
    "truediv", "type", "type_as", "unsqueeze", "view", "where", "zeros", "zeros_like",
))  # fmt: skip
WRITES = frozenset((
    "iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub", "itruediv",
    "ixor", "setitem", "triton_kernel_wrapper_mutation",
))  # fmt: skip
NOT_WRITES = frozenset(("and_", "or_", "not_", "is_"))  # of the module `operator`


class MaskUse:
    """How often masks that had been left out were needed, in this process."""

    def __init__(self) -> None:
        # From here on code is compiled with its masks.
        self.kept = False
        # Whether it was told that masks could not be read.
        self.told = False
        self.left_out = self.calls = self.misses = 0

    def count(self, missed: bool) -> None:
        self.calls += 1
        self.misses += missed
        if missed and not self.kept and self.misses > FEW and self.misses * SHARE > self.calls:
            self.kept = True
            needed = f"{self.misses} of {self.calls} batches needed a mask (padding, packed)"
            log(f"attention: {needed}: compiling with masks")


mask_use = MaskUse()


def compile_anew_if_kept() -> None:
    """Make Dynamo compile the frame that it compiles now once more, when masks are kept from then on.

    A frame of its own: where Dynamo splits a model, the frame with the attention is another one than the module's call.
    """
    from torch._dynamo.guards import GuardBuilder
    from torch._dynamo.source import AttrSource
    from torch._dynamo.symbolic_convert import InstructionTranslator

    source = InstructionTranslator.current_tx().import_source(__name__)
    source = AttrSource(AttrSource(source, "mask_use"), "kept")
    guards = torch._guards.TracingContext.get().guards_context.dynamo_guards
    guards.add(source.make_guard(GuardBuilder.CONSTANT_MATCH))


def report_notes() -> list[str]:
    """Return sentences for the report."""
    if not mask_use.left_out:
        return []
    missed = f"; {mask_use.misses} of {mask_use.calls} batches needed theirs" if mask_use.misses else ""
    return [f"attention: {mask_use.left_out} masks that hide nothing are left out of the compiled code{missed}"]


class UnmaskedBackend:
    """A backend for torch.compile around another one, with its mode and options."""

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        self._backend = backend
        self.__name__ = str(backend)  # torch's name for it
        patch_ddp()

    def __call__(self, graph: GraphModule, inputs: list[Any], mode: Any = None, options: Any = None) -> Any:
        compile_graph = functools.partial(self._compiler(mode, options), graph, inputs)
        once = functools.partial(compile_once, graph, inputs, (self._backend, mode, options), compile_graph)
        return without_masks(graph, inputs, once)

    def _compiler(self, mode: Any, options: Any) -> Any:
        if self._backend == "inductor":
            return torch._TorchCompileInductorWrapper(mode, options, None)
        return torch._dynamo.lookup_backend(self._backend)


def patch_ddp() -> None:
    """Drop masks before DistributedDataParallel splits a graph: it does so before a backend sees the graph."""
    from torch._dynamo.backends.distributed import DDPOptimizer

    original = DDPOptimizer.compile_fn
    if original.__module__ == __name__:
        return

    def compile_fn(self: Any, graph: GraphModule, inputs: list[Any], **named: Any) -> Any:
        split = functools.partial(original, self, graph, inputs, **named)
        return without_masks(graph, inputs, split) if is_unmasked_backend(self.backend_compile_fn) else split()

    DDPOptimizer.compile_fn = compile_fn


def is_unmasked_backend(backend: Any) -> bool:
    """Look below torch's wrappers, whose attribute had another name in older versions."""
    for name in ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable"):
        while hasattr(backend, name):
            backend = getattr(backend, name)
    return isinstance(getattr(backend, "compiler_fn", None), UnmaskedBackend)


def without_masks(graph: GraphModule, inputs: Sequence[Any], compiled: Callable[[], Any]) -> Any:
    """Return what `compiled` makes of the graph after the masks that can be left out were dropped from it."""
    masks = None if mask_use.kept else try_find_masks(graph, inputs)
    if masks is None:
        return compiled()
    whole = torch.fx.GraphModule(graph, copy_graph(graph))
    for node, kind in masks.attentions.items():
        drop_mask(node, kind)
    graph.recompile()
    mask_use.left_out += len(masks.attentions)
    return MaskGuard(compiled(), whole, masks)


def try_find_masks(graph: GraphModule, inputs: Sequence[Any]) -> Masks | None:
    try:
        masks = find_masks(graph, inputs)
        if masks is not None:
            compile_anew_if_kept()
        return masks
    except Exception as fault:
        # Some operations run nowhere but in a graph.
        if not mask_use.told:
            mask_use.told = True
            first = str(fault).partition("\n")[0]
            log(f"attention: masks stay as they were captured: {type(fault).__name__}: {first}")
        return None


class MaskGuard:
    """Runs compiled code without masks if the batch allows it, else the graph as it was captured."""

    def __init__(self, compiled: Callable[..., Any], whole: GraphModule, masks: Masks) -> None:
        self._compiled, self._whole, self._masks = compiled, whole, masks

    def __call__(self, *inputs: Any) -> Any:
        missed = not self._masks.hide_nothing(inputs)
        mask_use.count(missed)
        return (self._whole if missed else self._compiled)(*inputs)


class Masks:
    """The masks of a graph that can be left out, and the part of it that makes them.

    attentions: its calls of scaled_dot_product_attention that get one of them -> FULL or CAUSAL.
    """

    def __init__(self, part: GraphModule, kinds: list[str], attentions: dict[Node, str], depends: list[int]) -> None:
        self.attentions = attentions
        self._part, self._kinds = part, kinds
        # Inputs that the masks are made of.
        self._on_tensors = depends
        # Answers by size, if masks are made of sizes alone.
        self._of_sizes: dict[tuple[int, ...], bool] = {}

    def hide_nothing(self, inputs: Sequence[Any]) -> bool:
        if self._on_tensors:
            captured = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
            return not captured and self._look(inputs)  # a capture must not wait
        sizes = tuple(value for value in inputs if isinstance(value, int))
        if sizes not in self._of_sizes:
            self._of_sizes[sizes] = self._look(inputs)
        return self._of_sizes[sizes]

    def _look(self, inputs: Sequence[Any]) -> bool:
        with torch.no_grad():
            return all(has_kind(mask, kind) for mask, kind in zip(self._part(*inputs), self._kinds))


# Reading the graph


def find_masks(graph: GraphModule, inputs: Sequence[Any]) -> Masks | None:
    """Return None if no mask can be left out or read: then the graph is compiled as it is."""
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    masked = {node: mask for node in graph.graph.nodes if (mask := mask_of(node)) is not None}
    if not masked or len(given) != len(inputs):
        return None
    values = [concrete_value(value) for value in inputs]
    unread = {node for node, value in zip(given, values) if value is None}
    written = written_storages(graph.graph.nodes)
    makers = {mask: find_makers(mask, unread) for mask in dict.fromkeys(masked.values())}
    makers = {mask: nodes for mask, nodes in makers.items() if nodes and written.isdisjoint(map(storage_of, nodes))}
    if not makers:
        return None
    with torch.no_grad():
        shown = [find_kind(mask) for mask in mask_graph(graph, makers)(*values)]
    kinds = {mask: kind for mask, kind in zip(makers, shown) if kind}
    attentions = {node: kinds[mask] for node, mask in masked.items() if mask in kinds}
    made_of = set().union(*(makers[mask] for mask in kinds))
    depends = [place for place, node in enumerate(given) if node in made_of and torch.is_tensor(values[place])]
    part = mask_graph(graph, {mask: makers[mask] for mask in kinds})
    return Masks(part, list(kinds.values()), attentions, depends) if kinds else None


def mask_of(node: Node) -> Node | None:
    if node.op != "call_function" or node.target is not ATTENTION:
        return None
    mask = attention_arguments(node).get("attn_mask")
    return mask if isinstance(mask, torch.fx.Node) else None


def attention_arguments(attention: Node) -> dict[str, Any]:
    return {**dict(zip(PARAMETERS, attention.args)), **attention.kwargs}


def find_makers(mask: Node, unread: set[Node]) -> set[Node]:
    """Return the nodes that make a mask, itself too; an empty set if one of them may not run twice."""
    found: set[Node] = set()
    waiting = [mask]
    while waiting:
        node = waiting.pop()
        if node in unread or not (node.op == "placeholder" or is_pure(node)) or len(found) > MOST_MAKERS:
            return set()
        found.add(node)
        waiting.extend(source for source in node.all_input_nodes if source not in found)
    return found


def operation_name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def is_pure(node: Node) -> bool:
    return node.op in ("call_function", "call_method") and operation_name(node) in PURE and "out" not in node.kwargs


def written_storages(nodes: Iterable[Node]) -> set[Any]:
    """Return storages that the graph changes in place: a mask made of them depends on when it is read."""
    return {storage_of(source) for node in nodes if is_in_place(node) for source in node.all_input_nodes} - {None}


def is_in_place(node: Node) -> bool:
    name = operation_name(node)
    in_place = name in WRITES or (name.endswith("_") and not name.endswith("__") and name not in NOT_WRITES)
    # A script calls an operation by its packet, which has no schema of its own.
    overloads = node.target.overloads() if isinstance(node.target, torch._ops.OpOverloadPacket) else []
    kinds = [node.target, *(getattr(node.target, name) for name in overloads)]
    mutable = any(getattr(getattr(kind, "_schema", None), "is_mutable", False) for kind in kinds)
    calls = node.op in ("call_function", "call_method")
    return calls and bool(in_place or mutable or node.kwargs.get("inplace") or "out" in node.kwargs)


def storage_of(node: Node) -> Any:
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def concrete_value(value: Any) -> Any:
    """Return a graph's input to run its part with; None for a parameter, or for no plain tensor."""
    if isinstance(value, torch.SymInt):
        # Reading it otherwise would make the graph one of this size.
        return getattr(value.node, "hint", None)
    is_read = not isinstance(value, torch.Tensor) or (type(value) is torch.Tensor and not value.requires_grad)
    return value if is_read else None


def mask_graph(graph: GraphModule, makers: dict[Node, set[Node]]) -> GraphModule:
    """Return a graph of the same inputs that returns these masks."""
    wanted = set().union(*makers.values())
    part = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder" or node in wanted:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output([copies[mask] for mask in makers])
    return torch.fx.GraphModule(torch.nn.Module(), part)


def copy_graph(graph: GraphModule) -> Any:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph.graph, {}))
    return copy


def drop_mask(attention: Node, kind: str) -> None:
    given = {**attention_arguments(attention), "attn_mask": None, "is_causal": kind == CAUSAL}
    attention.args = tuple(given.pop(name) for name in PARAMETERS[:3])
    attention.kwargs = given


# Reading masks

# The mask that was read last, its version, and its answers: all blocks of a model get one mask.
_last: list[Any] = []


def forget_mask() -> None:
    """Read masks anew in each forward: `.data` and NumPy write into a mask and leave its version."""
    _last.clear()


def has_kind(mask: torch.Tensor, kind: str) -> bool:
    """Call `compute_kind` once for a tensor that nobody has changed since."""
    if mask.is_inference():  # has no version
        return compute_kind(mask, kind)
    if not _last or _last[0]() is not mask or _last[1] != mask._version:
        _last[:] = [weakref.ref(mask), mask._version, {}]
    answers: dict[str, bool] = _last[2]
    if kind not in answers:
        answers[kind] = compute_kind(mask, kind)
    return answers[kind]


def find_kind(mask: Any) -> str:
    """Return FULL, CAUSAL, or "" for a mask that says more."""
    return next((kind for kind in (FULL, CAUSAL) if torch.is_tensor(mask) and has_kind(mask, kind)), "")


def compute_kind(mask: torch.Tensor, kind: str) -> bool:
    """Compare a mask [..., queries, keys], of booleans or of numbers added to scores, with a kind."""
    if mask.dtype != torch.bool:
        if not mask.is_floating_point() or not bool(((mask == 0) | (mask <= torch.finfo(mask.dtype).min)).all()):
            return False
        mask = mask == 0
    if kind == FULL:
        return bool(mask.all())
    queries, keys = mask.shape[-2:]
    # is_causal counts from the first key.
    if queries != keys:
        return False
    causal = torch.ones(queries, keys, dtype=torch.bool, device=mask.device).tril()
    return bool(torch.equal(mask, causal.expand_as(mask)))
