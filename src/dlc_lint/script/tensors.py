"""Which expressions of a model's code are tensors: only where it can be told, else no."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.modules import attributes, own_attribute
from dlc_lint.script.script import attribute, literal

if TYPE_CHECKING:
    from dlc_lint.script.script import Script

# Methods and functions of which the result is no tensor.
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


def is_tensor(script: Script, node: cst.CSTNode | None) -> bool:
    """Whether the expression is a tensor, as far as the function's own text tells."""
    if node is None:
        return False
    key = id(node)
    if key not in script.tensors:
        script.tensors[key] = False  # for names that are bound to each other
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
    """`x = self.layer(x)` says nothing new about x where x is a tensor before."""
    return not isinstance(value, cst.Param) and any(one.value == name for one in script.inside(value, cst.Name))


def _bound(script: Script, value: cst.CSTNode | None) -> bool:
    if isinstance(value, cst.Param):
        return is_input(script, value)
    return is_tensor(script, value)


def is_input(script: Script, param: cst.Param) -> bool:
    """A parameter of `forward` that is a tensor by its annotation, or the first one, without annotation and default."""
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
        return False  # with a dimension: values and indices
    return is_tensor(script, call.func.value)


def _surely(script: Script, call: cst.Call) -> bool:
    """A function of torch, or a layer of the model: whatever it is given."""
    full = script.name(call.func)
    below, last = full.rpartition(".")[::2]
    if f"{below}." in FACTORIES:
        return last not in NOT_TENSORS and not last.startswith("is_") and last[:1].islower()
    return not full and bool(own_attribute(call.func)) and _is_layer(script, call)


def _is_layer(script: Script, call: cst.Call) -> bool:
    """`self.layer(x)`, where `self.layer = nn.Linear(...)`."""
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
