"""DLC122, DLC123, DLC124, DLC126: how a training step on XLA ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.guards import guarded
from dlc_lint.script.loaders import parallel_loader, runs_over_parallel_loader
from dlc_lint.script.modules import uses_xla
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.steps import BACKWARD, every_step, is_optimizer_step, steps
from dlc_lint.script.syncs import STEP_BLOCKS, asks_for_xla_device, is_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script
    from dlc_lint.script.steps import Step

SPAWNS = ("torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch")
# Each of them averages gradients, or ends steps, in a way of its own.
OTHERS_REDUCE = {
    "optimizer_step", "reduce_gradients", "all_reduce", "DistributedDataParallel", "DDP", "XlaFullyShardedDataParallel",
    "FSDP", "SpmdFullyShardedDataParallel", "use_spmd", "mark_sharding", "Accelerator", "Fabric", "Trainer",
    "fully_shard", "ZeroRedundancyOptimizer",
}  # fmt: skip
OTHERS_END_STEPS = {"Accelerator", "Fabric", "Trainer", "mark_step", "sync", "unlazy"}


def no_sync(script: Script) -> Iterator[Hit]:
    """DLC122."""
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
    """DLC123."""
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
    """`torch_xla.sync(wait=True)` does more than the one before it, and so does an optimizer's step."""
    return bool(call.args)


def _beside_loader(script: Script, step: Step) -> Iterator[Hit]:
    """The loader's own barrier comes right after a barrier that ends the body of its loop."""
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
    """DLC124."""
    if not uses_xla(script):
        return
    for block in script.all(cst.IndentedBlock):
        calls = [(index, call) for index, part in enumerate(block.body) for call in script.inside(part, cst.Call)]
        backward = [index for index, call in calls if attribute(call.func) in BACKWARD]
        optimizer = [(index, call) for index, call in calls if is_optimizer_step(call)]
        ends = [index for index, call in optimizer if not guarded(script, call, block)]  # not each some batches
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
    """The statement that makes the loss; one behind the block where it is made elsewhere."""
    call = next(one for one in script.inside(block.body[backward], cst.Call) if attribute(one.func) in BACKWARD)
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    names = {one.value for one in (owner, *(arg.value for arg in call.args)) if isinstance(one, cst.Name)}
    for index, part in enumerate(block.body[:backward]):
        for assign in script.inside(part, cst.Assign):
            if any(isinstance(one.target, cst.Name) and one.target.value in names for one in assign.targets):
                return index
    return len(block.body)


def plain_optimizer_step(script: Script) -> Iterator[Hit]:
    """DLC126."""
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
    """Spawned here, or `_mp_fn` for the launcher."""
    for call in script.calls(*SPAWNS):
        if literal(script.argument(call, "nprocs")) != 1:
            return True
    spawned = any(True for _ in script.calls(*SPAWNS))
    return not spawned and any(one.name.value == "_mp_fn" for one in script.all(cst.FunctionDef))


RULES = (
    Rule("DLC122", "nothing ends the training step on XLA", no_sync),
    Rule("DLC123", "two barriers end one step", doubled_sync, fixable=True),
    Rule("DLC124", "a barrier in the middle of a step", sync_within_step),
    Rule("DLC126", "a plain optimizer step in several XLA processes", plain_optimizer_step),
)
