"""The models of a PyTorch script, the code that the compiler sees, and which expressions in it are tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.script import attribute, literal, remembered
from dlc_lint.script.training_steps import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

MODULES = {
    "torch.nn.Module", "lightning.LightningModule", "lightning.core.LightningModule",
    "transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel",
}  # fmt: skip
EAGER_DECORATORS = {
    "torch.compiler.disable", "torch._dynamo.disable", "torch._disable_dynamo", "torch.jit.ignore", "torch.jit.unused",
    "torch.jit.export",
}  # fmt: skip

# Of parts of parts of a model.
MOST_PARTS = 5
# Methods and functions that return no tensor.
NOT_TENSORS = {
    "size", "dim", "item", "tolist", "numel", "nelement", "ndimension", "data_ptr", "element_size", "get_device",
    "is_contiguous", "is_floating_point", "is_complex", "is_cuda", "is_tensor", "stride", "storage", "type", "numpy",
    "register_hook", "retain_grad", "requires_grad_", "backward", "storage_offset", "allclose", "equal",
    "named_parameters", "parameters", "split", "chunk", "unbind", "topk", "sort", "shape", "keys", "values", "items",
    "get", "pop", "append", "device", "dtype", "is_available", "is_grad_enabled", "no_grad", "enable_grad",
    "autocast", "device_count", "Size", "manual_seed", "compile", "load", "save", "Generator", "format", "join",
    "lower", "startswith", "index", "count",
}  # fmt: skip
FACTORIES = ("torch.", "torch.nn.functional.", "torch.linalg.", "torch.special.", "torch.fft.")
TENSOR_ATTRIBUTES = {"T", "mT", "H", "grad", "data", "real", "imag"}
SEVERAL_RESULTS = {
    "LSTM",
    "GRU",
    "RNN",
    "LSTMCell",
    "MultiheadAttention",
    "ModuleList",
    "ModuleDict",
    "AdaptiveLogSoftmaxWithLoss",
}


@remembered
def module_classes(script: Script) -> list[cst.ClassDef]:
    """Return the classes that derive from torch.nn.Module, also by another class of the script."""
    return [one for one in script.all(cst.ClassDef) if is_module(script, one)]


def is_module(script: Script, one: cst.ClassDef, depth: int = 0) -> bool:
    """Return whether a class derives from torch.nn.Module as far as the script says."""
    for base in one.bases:
        if script.is_one_of(base.value, MODULES):
            return True
        parent = script.value(base.value)
        if (
            isinstance(parent, cst.ClassDef)
            and parent is not one
            and depth < 10
            and is_module(script, parent, depth + 1)
        ):
            return True
    return False


def methods(one: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """Return the methods of a class by name, of several the last."""
    return {part.name.value: part for part in one.body.body if isinstance(part, cst.FunctionDef)}


@remembered
def attributes(script: Script, one: cst.ClassDef) -> dict[str, list[cst.BaseExpression]]:
    """Return `self.x = value` of any method: name -> values."""
    found: dict[str, list[cst.BaseExpression]] = {}
    for assign in script.inside(one.body, cst.Assign):
        for target in assign.targets:
            name = own_attribute(target.target)
            if name:
                found.setdefault(name, []).append(assign.value)
    for typed in script.inside(one.body, cst.AnnAssign):
        name = own_attribute(typed.target)
        if name and typed.value is not None:
            found.setdefault(name, []).append(typed.value)
    return found


def own_attribute(node: cst.CSTNode | None) -> str:
    """Return `x` for `self.x`."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        return node.attr.value
    return ""


def has_weights(script: Script, one: cst.ClassDef, depth: int = 0) -> bool:
    """Return whether it has layers or parameters: a loss or a metric without them stays eager."""
    made = [value for values in attributes(script, one).values() for value in values if isinstance(value, cst.Call)]
    return depth > MOST_PARTS or any(_may_have_weights(script, call, depth) for call in made)


def has_layers(script: Script, one: cst.ClassDef) -> bool:
    """Return whether it has layers or parameters of torch.nn itself."""
    values = [value for several in attributes(script, one).values() for value in several]
    return any(
        script.name(call.func).startswith("torch.nn.") for value in values for call in script.inside(value, cst.Call)
    )


def _may_have_weights(script: Script, call: cst.Call, depth: int) -> bool:
    """Return whether a call may give layers: no tensor or array, and no module that has no weights itself."""
    name = script.name(call.func)
    if name and not name.startswith("torch.nn."):
        return not name.startswith(("torch.", "numpy.", "math.")) and "." in name
    kind = script.value(call.func)
    if isinstance(kind, cst.ClassDef) and kind in module_classes(script):
        return has_weights(script, kind, depth + 1)
    return True


@remembered
def compiled_code(script: Script) -> list[cst.FunctionDef]:
    """Return what the compiler sees: `forward` of models, methods that it calls, what torch.compile is given."""
    found: dict[int, cst.FunctionDef] = {}
    for one in module_classes(script):
        forward = methods(one).get("forward")
        if forward is not None and has_weights(script, one) and not _without_gradients(script, forward):
            _follow(script, methods(one), forward, found)
    for function in _given_to_compile(script):
        found.setdefault(id(function), function)
    return [one for one in found.values() if not stays_eager(script, one)]


def _without_gradients(script: Script, function: cst.FunctionDef) -> bool:
    """Recognise `@torch.no_grad()`: nothing trains through it."""
    return any("no_grad" in script.code(one) or "inference_mode" in script.code(one) for one in function.decorators)


def _follow(
    script: Script, own: dict[str, cst.FunctionDef], function: cst.FunctionDef, found: dict[int, cst.FunctionDef]
) -> None:
    if id(function) in found or stays_eager(script, function):
        return
    found[id(function)] = function
    for call in script.inside(function.body, cst.Call):
        called = own.get(own_attribute(call.func))
        if called is not None and not guarded(script, call, function.body):
            _follow(script, own, called, found)


def _given_to_compile(script: Script) -> Iterator[cst.FunctionDef]:
    for function in script.all(cst.FunctionDef):
        for decorator in function.decorators:
            called = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
            if script.is_one_of(called, {"torch.compile"}):
                yield function
    for call in script.calls("torch.compile"):
        given = script.value(script.argument(call, "model", 0))
        if isinstance(given, cst.FunctionDef):
            yield given


def stays_eager(script: Script, function: cst.FunctionDef) -> bool:
    """Return whether a decorator keeps the compiler out."""
    for decorator in function.decorators:
        called = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        if script.is_one_of(called, EAGER_DECORATORS):
            return True
    return False


def own_compile(script: Script) -> list[cst.Call]:
    """Return the calls `torch.compile(...)`, and `@torch.compile(...)`."""
    return list(script.calls("torch.compile"))


@remembered
def static_by_choice(script: Script) -> bool:
    """Return whether the script compiles for one shape each: `dynamic=False`, or a mode with CUDA graphs."""
    for call in own_compile(script):
        if literal(script.argument(call, "dynamic", 2)) is False:
            return True
        if literal(script.argument(call, "mode")) in ("reduce-overhead", "max-autotune"):
            return True
    return False


@remembered
def uses_xla(script: Script) -> bool:
    """Return whether it trains by PyTorch/XLA: the caller says so, or it imports torch_xla without a condition."""
    if script.options.compiler:
        return script.options.compiler == "xla"
    statements: list[cst.Import | cst.ImportFrom] = [*script.all(cst.Import), *script.all(cst.ImportFrom)]
    return any(_imports_xla(script, one) and script.around(one, cst.If, cst.Try) is None for one in statements)


def _imports_xla(script: Script, one: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(one, cst.ImportFrom):
        modules = [one.module] if one.module is not None and not one.relative else []
    else:
        modules = [alias.name for alias in one.names]
    return any(script.module.code_for_node(module).partition(".")[0] == "torch_xla" for module in modules)


def static_shapes(script: Script) -> bool:
    """Return whether each new shape is compiled anew."""
    return uses_xla(script) or static_by_choice(script)


def in_code(script: Script, node: cst.CSTNode, functions: list[cst.FunctionDef]) -> cst.FunctionDef | None:
    """Return the function of the list that a node is in, not one nested in it."""
    around = script.function(node)
    return around if any(around is one for one in functions) else None


def is_tensor(script: Script, node: cst.CSTNode | None) -> bool:
    """Return whether the expression is a tensor, as far as the function's own text tells."""
    if node is None:
        return False
    key = id(node)
    if key not in script.tensors:
        # For names that are bound to each other.
        script.tensors[key] = False
        script.tensors[key] = _is_tensor(script, node)
    return script.tensors[key]


def _is_tensor(script: Script, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Name):
        return _name(script, node)
    if isinstance(node, cst.Call):
        return _call(script, node)
    if isinstance(node, cst.BinaryOperation):
        return is_tensor(script, node.left) or is_tensor(script, node.right)
    if isinstance(node, cst.UnaryOperation):
        return not isinstance(node.operator, cst.Not) and is_tensor(script, node.expression)
    if isinstance(node, cst.Comparison):
        return _comparison(script, node)
    if isinstance(node, cst.Subscript):
        return is_tensor(script, node.value)
    if isinstance(node, cst.Attribute):
        return node.attr.value in TENSOR_ATTRIBUTES and is_tensor(script, node.value)
    return False


def _name(script: Script, node: cst.Name) -> bool:
    values = script.values(node)
    known = [value for value in values if value is None or not _mentions(script, value, node.value)]
    if any(isinstance(value, cst.Call) and value not in known and _surely(script, value) for value in values):
        return all(isinstance(value, cst.Param) or is_tensor(script, value) for value in known)
    return bool(known) and all(_bound(script, value) for value in known)


def _mentions(script: Script, value: cst.CSTNode, name: str) -> bool:
    """Recognise `x = self.layer(x)`, which says nothing new about x."""
    return not isinstance(value, cst.Param) and any(one.value == name for one in script.inside(value, cst.Name))


def _bound(script: Script, value: cst.CSTNode | None) -> bool:
    if isinstance(value, cst.Param):
        return is_input(script, value)
    return is_tensor(script, value)


def is_input(script: Script, param: cst.Param) -> bool:
    """Return whether it is a tensor by its annotation, or without one the first parameter of `forward`."""
    if param.annotation is not None:
        return script.name(param.annotation.annotation) == "torch.Tensor"
    function = script.function(param)
    if function is None or param.default is not None or param.star:
        return False
    first = [one for one in function.params.params if one.name.value != "self"][:1]
    return function.name.value == "forward" and bool(first) and first[0] is param


def _call(script: Script, call: cst.Call) -> bool:
    name = attribute(call.func)
    if script.name(call.func) or own_attribute(call.func):
        return _surely(script, call)
    if not isinstance(call.func, cst.Attribute) or name in NOT_TENSORS or name.startswith("is_"):
        return False
    if name in ("max", "min", "median", "mode") and (call.args and literal(call.args[0].value) is not ...):
        # With a dimension: values and indices.
        return False
    return is_tensor(script, call.func.value)


def _surely(script: Script, call: cst.Call) -> bool:
    """Return whether it is a function of torch, or a layer of the model: then its arguments do not matter."""
    full = script.name(call.func)
    below, last = full.rpartition(".")[::2]
    if f"{below}." in FACTORIES:
        return last not in NOT_TENSORS and not last.startswith("is_") and last[:1].islower()
    return not full and bool(own_attribute(call.func)) and _is_layer(script, call)


def _is_layer(script: Script, call: cst.Call) -> bool:
    """Recognise `self.layer(x)` with `self.layer = nn.Linear(...)`."""
    around = script.around(call, cst.ClassDef)
    values = attributes(script, around).get(own_attribute(call.func), []) if around is not None else []
    layers = [script.name(value.func) for value in values if isinstance(value, cst.Call)]
    return bool(layers) and len(layers) == len(values) and all(_gives_tensor(name) for name in layers)


def _gives_tensor(layer: str) -> bool:
    return layer.startswith("torch.nn.") and layer.rpartition(".")[2] not in SEVERAL_RESULTS


def _comparison(script: Script, node: cst.Comparison) -> bool:
    operators = tuple(one.operator for one in node.comparisons)
    if any(isinstance(one, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for one in operators):
        return False
    if any(isinstance(literal(one.comparator), str) for one in node.comparisons):
        return False
    return is_tensor(script, node.left) or any(is_tensor(script, one.comparator) for one in node.comparisons)
