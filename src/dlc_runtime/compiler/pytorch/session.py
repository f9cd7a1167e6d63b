"""One process's use of the compiler: watches the first eager steps, measures a few more, compiles, and reports.

Everything happens in hooks around optimizer steps: there no forward or backward of this thread is under way.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref

import torch
from torch.optim import optimizer as optimizers

from dlc_runtime.compiler.base import settings as settings_of
from dlc_runtime.compiler.base.errors import StrictError
from dlc_runtime.compiler.base.guarded import guarded
from dlc_runtime.compiler.base.log import say
from dlc_runtime.compiler.base.seen import Seen
from dlc_runtime.compiler.pytorch import process
from dlc_runtime.compiler.pytorch.choose import Choice, Stays, choose, compilable, unfit, unwrapped
from dlc_runtime.compiler.pytorch.compilations import Compilations
from dlc_runtime.compiler.pytorch.dumps import Dumps
from dlc_runtime.compiler.pytorch.own_compile import OwnCompile
from dlc_runtime.compiler.pytorch.watch import Watch, parameters_of
from dlc_runtime.compiler.report.steps import AFTER, EAGER, WARM_UP, Steps
from dlc_runtime.compiler.report.writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.base.settings import Settings

WATCHED = 2  # steps with hooks on every module; the rest of the eager steps is the baseline
MOST_WAITING = 10  # times as many steps are watched while a module waits for its optimizer's first step
WATCHING, BASELINE, COMPILED, OWN = "watching", "baseline", "compiled", "the script compiles"
FAILED = "failed"


class Session:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.own_compile = OwnCompile(self._stand_down)
        self.begin_anew()

    def begin_anew(self) -> None:
        self.process = os.getpid()
        self.phase = WATCHING
        self.record, self.steps = Compilations(), Steps()
        self.writer = Writer(self.settings, self.record, self.steps, process.facts)
        self.dumps = Dumps(self.settings)
        self.writer.at_end = self.dumps.end
        self.watch: Watch | None = None
        self.choice = Choice()
        self._optimizers, self._decided = Seen(), Seen()
        self._primary: Callable[[], Any] = lambda: None  # its steps are counted
        self._in_phase = 0

    def start(self) -> None:
        optimizers.register_optimizer_step_post_hook(self._after_step)
        self.own_compile.listen()
        self._begin_watch()

    # -- steps ----------------------------------------------------------------------------------------------------

    @guarded
    def _after_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
        if torch.compiler.is_compiling() or is_inner_step():  # Horovod's step calls the one that it wraps
            return
        if self.phase == FAILED:
            return
        if os.getpid() != self.process:  # forked: the parent's steps are not ours
            self.begin_anew()
            self._begin_watch()
        self._meet(optimizer)
        if optimizer is self._primary():
            self._count_step()

    def _meet(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            new = any(parameter not in self._decided for parameter in parameters_of(optimizer))
            if self.phase in (BASELINE, COMPILED) and new:
                self._begin_watch()
                self._primary = weakref.ref(optimizer)
        if self._primary() is None:
            self._primary = weakref.ref(optimizer)
        if self.watch is not None:
            self.watch.note_step(optimizer)

    def _count_step(self) -> None:
        self._in_phase += 1
        {WATCHING: self._watched_step, BASELINE: self._baseline_step}.get(self.phase, self._compiled_step)()
        if self.writer.after_step():
            self.steps.resume(time.perf_counter())

    def _watched_step(self) -> None:
        self._tick(EAGER, measured=False)
        watch = self.watch
        if watch is None or self._in_phase < min(WATCHED, self.settings.eager_steps):
            return
        if watch.waiting() and self._in_phase < MOST_WAITING * self.settings.eager_steps:
            return
        self._end_watch()
        self.choice = choose(watch)
        for root in watch.roots.values():
            self._decided.add_all(root.module.parameters())
        self.phase, self._in_phase = BASELINE, 0
        if self.settings.eager_steps <= WATCHED:
            self._compile()

    def _baseline_step(self) -> None:
        self._tick(EAGER)
        if self._in_phase >= self.settings.eager_steps - WATCHED:
            self._compile()

    def _compiled_step(self) -> None:
        compiled = self._drain()
        if self.phase == COMPILED and not self.record.modules:
            return self._tick(EAGER)
        warming_up = compiled or not self.steps.first_compiled or self._in_phase == 1
        return self._tick(WARM_UP if warming_up else AFTER)

    def _tick(self, phase: str, measured: bool = True) -> None:
        idle = self.steps.wants_device_idle(phase)
        if torch.cuda.is_initialized() and idle:
            torch.cuda.synchronize()
        self.steps.tick(phase, time.perf_counter(), measured and idle)

    def fail(self, fault: Exception) -> None:
        """A fault of ours: what is compiled stays so, and nothing more is done."""
        self._end_watch()
        self._pause(False)
        self.phase = FAILED
        text = self.record.warn(f"nothing more is compiled or reported: {type(fault).__name__}: {fault}")
        self._say_or_fail(text)
        self.writer.write()

    # -- watching -------------------------------------------------------------------------------------------------

    def _begin_watch(self) -> None:
        if self.watch is None:
            self.watch = Watch(self.fail)
            self.watch.begin()
        self._pause(True)
        self.phase, self._in_phase = WATCHING, 0

    def _end_watch(self) -> None:
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def _pause(self, paused: bool) -> None:
        """While all modules have hooks, nothing compiled may see them: it would be compiled again."""
        inplace = sys.modules.get("dlc_runtime.compiler.pytorch.inplace")  # not imported: nothing was compiled
        if inplace is not None:
            inplace.Dispatch.paused = paused

    def _stand_down(self, what: str) -> None:
        if self.phase in (WATCHING, BASELINE) and not self.record.modules:
            self._end_watch()
            self._configure()
            self.phase = OWN
            self.record.add_eager(what, "the script compiles it itself")
            say(f"the script itself compiles {what}: its modules are left as they are")

    # -- compiling ------------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        self.phase, self._in_phase = COMPILED, 0
        for stays in self.choice.stays:
            self._stay(stays)
        if self.choice.chosen:
            self._configure()
            self._compile_modules(self.choice.chosen)
        self._pause(False)
        self.choice = Choice()  # holds no module alive
        self.writer.write()

    def _compile_modules(self, modules: list[torch.nn.Module]) -> None:
        from dlc_runtime.compiler.pytorch.inplace import compile_in_place
        from dlc_runtime.compiler.pytorch.toolchain import missing_compiler, spare_headers

        missing = missing_compiler(modules)
        if missing:
            for module in modules:
                self._stay(Stays(module, missing, "install g++ in the image, or set DLC_COMPILER=off"))
            return
        if self.settings.backend == settings_of.INDUCTOR:
            spare_headers()
        names = []
        for module in modules:
            names.append(self.record.add_module(module))
            compile_in_place(module, names[-1], self.settings)
        say(f"compiling {', '.join(names)} with {self.settings.backend}, after {self.steps.count} eager steps")

    def _stay(self, stays: Stays) -> None:
        remedy = f". Remedy: {stays.remedy}" if stays.remedy else ""
        if self.record.add_eager(stays.module, stays.reason, stays.remedy) and stays.wanted:
            text = self.record.warn(f"{stays.module} stays eager: {stays.reason}{remedy}")
            self._say_or_fail(text)

    def _configure(self) -> None:
        from dlc_runtime.compiler.pytorch import dynamo

        dynamo.configure(self.settings)
        self.record.notes.extend(dynamo.without_small_buckets(self.choice.wrappers))

    def _drain(self) -> bool:
        if "torch._dynamo" not in sys.modules:  # its import takes seconds, and nothing was compiled
            return False
        from dlc_runtime.compiler.pytorch import dynamo

        found = dynamo.drain()
        for item in dynamo.drain_breaks():
            self.record.add_graph_break(item)
        failed = len(self.record.fallbacks) + len(self.record.gave_up)
        for compilation in found:
            warning = self.record.add_compilation(compilation, self.steps.count + 1)
            if warning and len(self.record.fallbacks) + len(self.record.gave_up) > failed:
                self._say_or_fail(warning)
            elif warning:
                say(warning)
        if found:
            self.dumps.after_compiling()
        return bool(found)

    def _say_or_fail(self, text: str) -> None:
        if self.settings.strict:
            self.writer.write()
            raise StrictError(f"DLC_COMPILER_STRICT=1: {text}")
        say(text)

    def prepare(self, model: torch.nn.Module, given: tuple[torch.optim.Optimizer, ...]) -> None:
        self._end_watch()
        stays = unfit(model)
        if stays:
            self.choice.stays.append(stays)
        else:
            self.choice.wrap(model)
            compilable(unwrapped(model), self.choice)
        self._decided.add_all(model.parameters())
        for optimizer in given:
            self._optimizers.add(optimizer)
            self._decided.add_all(parameters_of(optimizer))
            self._primary = weakref.ref(optimizer)
        self._compile()


def is_inner_step() -> bool:
    """Whether the optimizer's step that has just ended was called by another one's.

    The stack tells, and no count of beginnings: a step that raises, as one without memory does, has no end to count.
    """
    frame, step = sys._getframe(), None
    while (outer := frame.f_back) is not None:
        frame = outer
        if frame.f_globals is vars(optimizers):  # torch's own function around each step, which calls our hook
            if frame.f_code is step:
                return True
            step = step or frame.f_code
    return False


@functools.cache
def start() -> Session:
    """The process's session, begun at the first call."""
    asked = settings_of.read(os.environ)
    from dlc_runtime.compiler.cache import folder

    held = folder.use(os.environ)
    session = Session(asked)
    session.record.cache = held
    session.start()
    return session


def prepare(model: Any, given: tuple[Any, ...]) -> Any:
    asked = os.environ.get(settings_of.BACKEND, "").strip().lower()
    if asked in (settings_of.OFF, settings_of.XLA):  # XLA compiles what runs on its devices by itself
        return model
    if not asked:
        os.environ[settings_of.BACKEND] = settings_of.INDUCTOR  # the script asks for it; its child processes inherit it
    start().prepare(model, given)
    return model
