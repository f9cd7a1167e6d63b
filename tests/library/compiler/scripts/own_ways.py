"""Ways of the test's own in place of those that compile, and a clock by which the runtime measures them."""

import functools
import os
import sys

import torch

STEP = 0.0625  # seconds by the clock, exact in binary: a block is four steps


class Clock:
    """In place of the module `time`, so that no other program's work counts."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


clock = Clock()


def slow(graph, _inputs):
    """Of several ranks all but the first are slow."""

    def run(*arguments):
        clock.now += STEP if os.environ.get("RANK") != "0" else 0
        return graph(*arguments)

    return run


def wrong(graph, _inputs):
    return lambda *arguments: tuple(value * 1.25 for value in graph(*arguments))


def failing(graph, _inputs):
    """Runs when it is compared, and has no memory in the training's own step."""
    calls = []

    def run(*arguments):
        calls.append(1)
        if len(calls) > 1:
            torch.rand(3)  # what it drew must not be missing in the eager step
            raise RuntimeError("out of memory, says the test")
        return graph(*arguments)

    return run


def backward_failing(fails_at, graph, inputs):
    """A backward that has no memory once: 1 is when it is compared, 2 the training's own."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    calls = []

    def compiled(part, _inputs):
        def run(*arguments):
            calls.append(1)
            if len(calls) == fails_at:
                raise torch.cuda.OutOfMemoryError("out of memory, says the test")
            return part(*arguments)

        return make_boxed_func(run)

    forward = lambda part, _inputs: make_boxed_func(part.forward)  # noqa: E731
    return aot_autograd(fw_compiler=forward, bw_compiler=compiled)(graph, inputs)


def same(graph, _inputs):
    return graph


def reusing(graph, inputs):
    """As CUDA graphs do: with each step begins all memory that was returned before is written over."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=lambda part, _: make_boxed_func(into_one_memory(part)),
        bw_compiler=lambda part, _: make_boxed_func(into_one_memory(part)),
    )(graph, inputs)


def into_one_memory(graph):
    from dlc_runtime.compiler.pytorch.dispatch import Dispatch

    memory, seen = [], {"step": -1, "call": 0}

    def run(*arguments):
        if seen["step"] != Dispatch.step:
            seen.update(step=Dispatch.step, call=0)
            for value in memory:
                for tensor in value:
                    tensor.fill_(float("nan"))
        outputs = graph(*arguments)
        if seen["call"] == len(memory):
            memory.append([value.clone() for value in outputs if is_number(value)])
        held = iter(memory[seen["call"]])
        seen["call"] += 1
        return [next(held).copy_(value).detach() if is_number(value) else value for value in outputs]

    return run


def is_number(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def use(name, at_once=False, wait=0):
    """`at_once`: from the first compiled step on, without choosing. `wait`: seconds that ranks wait for each other."""
    if not os.environ.get("DLC_COMPILER"):
        return
    from dlc_runtime.compiler.pytorch import in_place, session, turns, ways

    session.time = turns.time = in_place.time = clock
    backends = {"slow": slow, "wrong": wrong, "failing": failing, "same": same, "reusing": reusing, "regional": same}
    backends.update({f"backward-{number}": functools.partial(backward_failing, number) for number in (1, 2)})
    own = ways.Way(name, {"backend": backends[name]}, name == "regional", name == "reusing")
    ways.WAYS[name] = own
    ways.TRIED["cpu"] = (name,)
    if wait:
        agreement = sys.modules["dlc_runtime.compiler.pytorch.turns"]
        agreement.WAIT = agreement.datetime.timedelta(seconds=wait)
    if at_once:
        session.start()._fixed = own
