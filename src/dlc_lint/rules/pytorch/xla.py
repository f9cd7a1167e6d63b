"""DLC121 to DLC127: what does not go with an XLA device, and how a training step on XLA ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.loaders import parallel_loader, runs_over_parallel_loader
from dlc_lint.script.models import uses_xla
from dlc_lint.script.script import attribute, literal, owner
from dlc_lint.script.training_steps import (
    BACKWARD,
    STEP_BLOCKS,
    TRAINING_ARGUMENTS,
    asks_for_xla_device,
    every_step,
    guarded,
    is_optimizer_step,
    is_sync,
    steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script
    from dlc_lint.script.training_steps import Step

CHOICES = (cst.If, cst.IfExp, cst.Try)
SPAWNS = ("torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch")
# Each of them averages gradients, or ends steps, in a way of its own.
OTHERS_REDUCE = {
    "optimizer_step", "reduce_gradients", "all_reduce", "DistributedDataParallel", "DDP", "XlaFullyShardedDataParallel",
    "FSDP", "SpmdFullyShardedDataParallel", "use_spmd", "mark_sharding", "Accelerator", "Fabric", "Trainer",
    "fully_shard", "ZeroRedundancyOptimizer",
}  # fmt: skip
OTHERS_END_STEPS = {"Accelerator", "Fabric", "Trainer", "mark_step", "sync", "unlazy"}


def cuda_beside_xla(script: Script) -> Iterator[Hit]:
    """Find DLC121."""
    if not uses_xla(script) or not asks_for_xla_device(script):
        return
    for call in script.all(cst.Call):
        if _names_cuda(script, call) and script.around(call, *CHOICES) is None:
            yield Hit(
                call,
                f"{script.code(call)} is CUDA's device, and the model is on XLA's; use the one of "
                "torch_xla.device() everywhere",
            )


def _names_cuda(script: Script, call: cst.Call) -> bool:
    if attribute(call.func) == "cuda" and not script.name(call.func):
        return True
    first = call.args[0].value if call.args else None
    places = [script.argument(call, "device")]
    if attribute(call.func) == "to" or script.is_one_of(call.func, {"torch.device"}):
        places.append(first)
    return any(isinstance(literal(one), str) and str(literal(one)).startswith("cuda") for one in places)


def plain_save(script: Script) -> Iterator[Hit]:
    """Find DLC125."""
    if not uses_xla(script) or not asks_for_xla_device(script):
        return
    for call in script.calls("torch.save"):
        saved = script.argument(call, "obj", 0)
        if saved is None or not _of_model(script, saved) or _beside_its_own(script, call):
            continue
        module = _module_name(script)
        safe = (
            module
            and not script.around(call, *CHOICES, cst.With)
            and len(call.args) == 2
            and not any(arg.keyword for arg in call.args)
        )
        edits = (script.replace(call.func, f"{module}.save"),) if safe else ()
        yield Hit(
            call.func,
            "torch.save writes tensors of the XLA device; xm.save copies them to the host first "
            "and writes once for all processes",
            edits,
        )


def _beside_its_own(script: Script, call: cst.Call) -> bool:
    """Recognise `if on_xla: xm.save(...)`, `else: torch.save(...)`."""
    choices = [one for one in script.ancestors(call) if isinstance(one, cst.If)]
    return any(script.code(one.func) == "xm.save" for choice in choices for one in script.inside(choice, cst.Call))


def _of_model(script: Script, saved: cst.BaseExpression) -> bool:
    """Recognise a state_dict that is not yet on the host."""
    value = script.value(saved)
    if value is None:
        return False
    calls = [attribute(one.func) for one in script.inside(value, cst.Call)]
    words = script.code(value)
    return "state_dict" in calls and "cpu" not in calls and "cpu" not in words


def _module_name(script: Script) -> str:
    """Return the script's name for torch_xla.core.xla_model; "" if it has none at the top."""
    for one in script.all(cst.Import):
        for alias in one.names:
            if script.module.code_for_node(alias.name) == "torch_xla.core.xla_model" and alias.asname is not None:
                return script.module.code_for_node(alias.asname.name) if script.function(one) is None else ""
    return ""


def fused_optimizer(script: Script) -> Iterator[Hit]:
    """Find DLC127."""
    if not uses_xla(script):
        return
    for call in script.calls("torch.optim."):
        if literal(script.argument(call, "fused")) is True:
            arg = script.arg(call, "fused")
            yield Hit(
                arg,
                "XLA has no fused optimizer: the first step fails; leave fused out",
                script.drop_argument(call, arg),
            )
    for call in () if _only_evaluates(script) else script.calls(*TRAINING_ARGUMENTS):
        given = script.argument(call, "optim")
        if given is not None and literal(given) == "adamw_torch_fused":
            yield Hit(
                given,
                'XLA has no fused optimizer: the first step fails; use optim="adamw_torch"',
                (script.replace(given, '"adamw_torch"'),),
            )
        elif given is None and not script.has_stars(call):
            yield Hit(call.func, 'the default optimizer is a fused one, which XLA has not; use optim="adamw_torch"')


def _only_evaluates(script: Script) -> bool:
    """Return whether the script's Trainer evaluates or predicts and never trains: it makes no optimizer then."""
    asked = {attribute(call.func) for call in script.all(cst.Call) if _is_trainer(script, owner(call.func))}
    return bool(asked & {"evaluate", "predict"}) and not asked & {"train", "hyperparameter_search"}


def _is_trainer(script: Script, node: cst.CSTNode | None) -> bool:
    value = script.value(node) if node is not None else None
    made = isinstance(value, cst.Call) and script.code(value.func).endswith("Trainer")
    return made or (node is not None and "trainer" in script.code(node).lower())


def no_sync(script: Script) -> Iterator[Hit]:
    """Find DLC122."""
    if not uses_xla(script) or not asks_for_xla_device(script) or _something_ends_steps(script):
        return
    for step in steps(script):
        optimizer = [one for one in script.inside(step.body, cst.Call) if is_optimizer_step(one)]
        if optimizer and step.loop is not None and any(every_step(script, one, step) for one in optimizer):
            yield Hit(
                optimizer[-1],
                "nothing ends the step: XLA's graph grows over all steps until a value is read; call "
                "torch_xla.sync() after it, or take batches from MpDeviceLoader",
            )
            return


def _something_ends_steps(script: Script) -> bool:
    if parallel_loader(script) or any(True for _ in script.calls(*STEP_BLOCKS)):
        return True
    if any(script.is_one_of(one.decorator, STEP_BLOCKS) for one in script.all(cst.Decorator)):
        return True
    return any(is_sync(script, one) or _called(one) in OTHERS_END_STEPS for one in script.all(cst.Call))


def _called(call: cst.Call) -> str:
    return call.func.value if isinstance(call.func, cst.Name) else attribute(call.func)


def doubled_sync(script: Script) -> Iterator[Hit]:
    """Find DLC123."""
    if not uses_xla(script):
        return
    for block in script.all(cst.IndentedBlock):
        earlier = None
        for statement in block.body:
            call = _sync_statement(script, statement)
            if call is not None and earlier is not None and not _has_arguments_beside_barrier(script, call):
                yield Hit(
                    call,
                    f"{script.code(call)} follows {script.code(earlier)}: two barriers end one step, and "
                    "the second waits for nothing; leave it out",
                    script.drop_line(statement),
                )
            earlier = call
    for step in steps(script):
        yield from _beside_loader(script, step)


def _sync_statement(script: Script, statement: cst.CSTNode) -> cst.Call | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        only = statement.body[0]
        if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) and is_sync(script, only.value):
            return only.value
    return None


def _has_arguments_beside_barrier(script: Script, call: cst.Call) -> bool:
    """Recognise `torch_xla.sync(wait=True)`, which does more than a barrier, as does an optimizer's step."""
    return bool(call.args)


def _beside_loader(script: Script, step: Step) -> Iterator[Hit]:
    """Return whether the loader's own barrier comes right after a barrier that ends its loop's body."""
    if not runs_over_parallel_loader(script, step.loop) or not isinstance(step.body, cst.IndentedBlock):
        return
    last = step.body.body[-1]
    call = _sync_statement(script, last)
    if call is not None and attribute(call.func) != "optimizer_step" and not call.args:
        yield Hit(
            call,
            f"the loader ends each step itself, so {script.code(call)} is a second barrier; leave it out",
            script.drop_line(last),
        )


def sync_within_step(script: Script) -> Iterator[Hit]:
    """Find DLC124."""
    if not uses_xla(script):
        return
    for block in script.all(cst.IndentedBlock):
        calls = [(index, call) for index, part in enumerate(block.body) for call in script.inside(part, cst.Call)]
        backward = [index for index, call in calls if attribute(call.func) in BACKWARD]
        optimizer = [(index, call) for index, call in calls if is_optimizer_step(call)]
        # Not those that run after some batches only.
        ends = [index for index, call in optimizer if not guarded(script, call, block)]
        if len(backward) != 1 or len(ends) != 1:
            continue
        loss = _bound_before(script, block, backward[0])
        for index, part in enumerate(block.body):
            call = _sync_statement(script, part)
            if call is not None and attribute(call.func) != "optimizer_step" and loss < index < ends[0]:
                yield Hit(
                    call,
                    f"{script.code(call)} stands between the forward pass and the optimizer's step, which "
                    "cuts the step into two graphs; move it behind the optimizer's step",
                )


def _bound_before(script: Script, block: cst.IndentedBlock, backward: int) -> int:
    """Return the statement that makes the loss; the one behind the block if it is made elsewhere."""
    call = next(one for one in script.inside(block.body[backward], cst.Call) if attribute(one.func) in BACKWARD)
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    names = {one.value for one in (owner, *(arg.value for arg in call.args)) if isinstance(one, cst.Name)}
    for index, part in enumerate(block.body[:backward]):
        for assign in script.inside(part, cst.Assign):
            if any(isinstance(one.target, cst.Name) and one.target.value in names for one in assign.targets):
                return index
    return len(block.body)


def plain_optimizer_step(script: Script) -> Iterator[Hit]:
    """Find DLC126."""
    if not uses_xla(script) or not _several_processes(script):
        return
    if any(_called(call) in OTHERS_REDUCE for call in script.all(cst.Call)):
        return
    for step in steps(script):
        for call in script.inside(step.body, cst.Call):
            if (
                is_optimizer_step(call)
                and attribute(call.func) == "step"
                and script.function(call) is script.function(step.body)
            ):
                yield Hit(
                    call,
                    f"{script.code(call)} does not average the gradients of the processes: each trains a "
                    "model of its own; use xm.optimizer_step(optimizer)",
                )
                return


def _several_processes(script: Script) -> bool:
    """Recognise processes spawned here, or `_mp_fn` for the launcher."""
    for call in script.calls(*SPAWNS):
        if literal(script.argument(call, "nprocs")) != 1:
            return True
    spawned = any(True for _ in script.calls(*SPAWNS))
    return not spawned and any(one.name.value == "_mp_fn" for one in script.all(cst.FunctionDef))


RULES = (
    Rule("DLC121", "CUDA's device beside XLA's", cuda_beside_xla),
    Rule("DLC122", "nothing ends the training step on XLA", no_sync),
    Rule("DLC123", "two barriers end one step", doubled_sync, fixable=True),
    Rule("DLC124", "a barrier in the middle of a step", sync_within_step),
    Rule("DLC125", "torch.save of a model on XLA", plain_save, fixable=True),
    Rule("DLC126", "a plain optimizer step in several XLA processes", plain_optimizer_step),
    Rule("DLC127", "a fused optimizer on XLA", fused_optimizer, fixable=True),
)
