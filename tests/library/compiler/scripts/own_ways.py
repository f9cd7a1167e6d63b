"""Ways of the test's own in place of those that compile, and a clock by which the runtime measures them."""

import functools
import os
import sys

import torch

WRONG_AFTER = 40
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


GRAPHS = []


def wrong_second(graph, _inputs):
    """The first graph is right, later ones are not: as code for other shapes, or compiled again for another reason."""
    GRAPHS.append(graph)
    return graph if len(GRAPHS) == 1 else wrong(graph, None)


def wrong_later(graph, _inputs):
    """Right for WRONG_AFTER calls; of several ranks rank 1 alone is wrong then."""
    calls = []

    def run(*arguments):
        calls.append(1)
        late = len(calls) > WRONG_AFTER and os.environ.get("RANK", "1") == "1"
        return tuple(value * (1.01 if late else 1) for value in graph(*arguments))

    return run


def same(graph, _inputs):
    return graph


# Of all graphs: what they returned.
MEMORIES = []


def reusing(graph, inputs):
    """As CUDA graphs do, which have one memory: with each step begins all that was returned before is written over."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=lambda part, _: make_boxed_func(into_one_memory(part)),
        bw_compiler=lambda part, _: make_boxed_func(into_one_memory(part)),
    )(graph, inputs)


class Memory:
    """What a graph returned in a step, by its calls."""

    marked, marks = False, 0

    def __init__(self):
        self.tensors, self.calls = [], 0
        MEMORIES.append(self)

    @classmethod
    def mark(cls):
        cls.marked = True
        cls.marks += 1

    @classmethod
    def begin_step(cls):
        cls.marked = False
        for memory in MEMORIES:
            memory.calls = 0
            for tensor in (tensor for value in memory.tensors for tensor in value):
                tensor.fill_(float("nan"))


def into_one_memory(graph):
    memory = Memory()

    def run(*arguments):
        if Memory.marked:
            Memory.begin_step()
        outputs = graph(*arguments)
        if memory.calls == len(memory.tensors):
            memory.tensors.append([value.clone() for value in outputs if is_number(value)])
        held = iter(memory.tensors[memory.calls])
        memory.calls += 1
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
    torch.compiler.cudagraph_mark_step_begin = Memory.mark
    backends = {
        "slow": slow,
        "wrong": wrong,
        "failing": failing,
        "same": same,
        "wrong-second": wrong_second,
        "wrong-later": wrong_later,
        "reusing": reusing,
        "regional": same,
    }
    backends.update({f"backward-{number}": functools.partial(backward_failing, number) for number in (1, 2)})
    own = ways.Way(name, {"backend": backends[name]}, name == "regional", name == "reusing")
    ways.WAYS[name] = own
    ways.TRIED["cpu"] = (name,)
    if wait:
        agreement = sys.modules["dlc_runtime.compiler.pytorch.agreement"]
        agreement.WAIT = agreement.datetime.timedelta(seconds=wait)
    if at_once:
        session.start()._fixed = own
