"""The session of one process: watches the first eager steps, chooses the way of the others, and reports.

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

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.cache import cache_digests, cache_folder
from dlc_runtime.compiler.choosing.candidates import EAGER as EAGER_WAY
from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.choosing.decisions import Decisions
from dlc_runtime.compiler.hooks import IdentitySet, living, log, never_raises
from dlc_runtime.compiler.pytorch import dynamo, torch_facts, ways
from dlc_runtime.compiler.pytorch.agreement import Agreement, count_ranks
from dlc_runtime.compiler.pytorch.beside import Beside
from dlc_runtime.compiler.pytorch.debug_dumps import Dumps
from dlc_runtime.compiler.pytorch.dispatch import Dispatch, watch_compilations
from dlc_runtime.compiler.pytorch.empty_ways import EmptyWays
from dlc_runtime.compiler.pytorch.in_place import begin_step_of_graphs, compile_in_place, fuse_steps
from dlc_runtime.compiler.pytorch.module_selection import (
    EagerReason,
    Selection,
    UserCompileListener,
    Watch,
    is_inner_step,
    parameters_of,
    reason_against_compiling,
    select_modules,
    select_parts,
    unwrap_ddp,
)
from dlc_runtime.compiler.pytorch.newcomers import Newcomers
from dlc_runtime.compiler.pytorch.progress import Progress
from dlc_runtime.compiler.pytorch.sampling import Sampling
from dlc_runtime.compiler.pytorch.turns import StepClock, Turns
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.writer import Writer
from dlc_runtime.compiler.source_locations import find_user_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings

WATCHED = 2  # steps with hooks on every module; the rest of the eager steps is the baseline
MOST_WAITING = 10  # times as many steps are watched while a module waits for its optimizer's first step
WATCHING, BASELINE, CHOOSING, COMPILED = "watching", "baseline", "choosing", "compiled"
OWN, FAILED = "the script compiles", "failed"
BY_HAND = "no optimizer step was seen, the script changes the weights itself"
BY_HAND_REMEDY = "step with an optimizer of torch.optim, or compile the model with dlc_runtime.compiler.prepare"
TWICE = "does not currently support double backward"  # as torch says it
TWICE_WARNING = "the script differentiates the backward of a compiled module (create_graph=True), which torch cannot do"
TWICE_REMEDY = "call the model in the function that asks for create_graph=True, or set DLC_COMPILER=off"


class Session:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.user_compile = UserCompileListener(self._stand_down)
        self.reset()

    def reset(self) -> None:
        self.process = os.getpid()
        self.phase = WATCHING
        self.record, self.steps = dynamo.PyTorchRecord(), StepTimes()
        self.writer = Writer(self.settings, self.record, self.steps, torch_facts.facts)
        self.dumps = Dumps(self.settings)
        self.writer.before_end, self.writer.at_end = self._before_end, self.dumps.end
        self.progress = Progress(self.record, self.writer.write)
        self.watch: Watch | None = None
        self.selection = Selection()
        self._optimizers, self._decided, self._empty_ways = Newcomers(), IdentitySet(), EmptyWays(self.record)
        self._primary: Callable[[], Any] = lambda: None  # its steps are counted
        self._in_phase = 0
        self._began = time.perf_counter()
        self._agreement = Agreement()
        self._turns: Turns | None = None
        self._chosen: list[weakref.ref[torch.nn.Module]] = []  # to be compiled when a way needs it
        self._wrappers: list[weakref.ref[torch.nn.Module]] = []
        self._decisions = Decisions()
        self._clock = StepClock(self.steps)
        self._sampling = Sampling(self._agreement, self.record, self._began)
        self._fixed = ways.requested_way(self.settings)

    def start(self) -> None:
        optimizers.register_optimizer_step_post_hook(self._after_step)
        self.user_compile.listen()
        if self.settings.tf32:
            torch_facts.use_tf32()
        self._begin_watch()

    # -- steps ----------------------------------------------------------------------------------------------------

    @never_raises
    def _after_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
        # Horovod's step calls the one that it wraps.
        if self.phase == FAILED or torch.compiler.is_compiling() or is_inner_step():
            return
        if os.getpid() != self.process:  # forked: the parent's steps and its hooks are not ours
            self._end_watch()
            self.reset()
            self._begin_watch()
        self._meet(optimizer)
        if optimizer is self._primary():
            self._count_step()

    def _meet(self, optimizer: torch.optim.Optimizer) -> None:
        if self._optimizers.takes_in(optimizer, self._primary() if self.phase == CHOOSING else None):
            new = any(parameter not in self._decided for parameter in parameters_of(optimizer))
            if self.phase in (BASELINE, CHOOSING, COMPILED) and new:
                self._begin_watch()
                self._primary = weakref.ref(optimizer)
        if self._primary() is None:
            self._primary = weakref.ref(optimizer)
        if self.watch is not None:
            self.watch.note_step(optimizer)

    def _count_step(self) -> None:
        self._in_phase += 1
        torch_facts.gpu.sample(time.perf_counter())
        steps = {WATCHING: self._watched_step, BASELINE: self._baseline_step, CHOOSING: self._choosing_step}
        steps.get(self.phase, self._compiled_step)()
        Dispatch.step += 1
        self._sampling.step_ended(self.steps.count, self._is_trained_compiled())
        if Dispatch.way.reuses_memory:
            begin_step_of_graphs()
        if self.writer.after_step():
            self.steps.resume(time.perf_counter())
            if self._turns is not None:
                self._turns.resume(time.perf_counter())

    def _is_trained_compiled(self) -> bool:
        """Tell whether the steps run a way that was chosen; all ranks know the same."""
        if self._turns is not None:
            return self._turns.decided and not self._turns.lost and self._turns.choosing.way != EAGER_WAY
        return self.phase == COMPILED and bool(self.record.modules)

    def _watched_step(self) -> None:
        self._tick(EAGER, measured=False)
        watch = self.watch
        if watch is None or self._in_phase < min(WATCHED, self.settings.eager_steps):
            return
        if watch.waiting() and self._in_phase < MOST_WAITING * self.settings.eager_steps:
            return
        self._end_watch()
        self.selection = select_modules(watch)
        trained = (value for root in watch.roots.values() for value in root.module.parameters())
        torch_facts.note_training(trained, watch.autocast)
        for root in watch.roots.values():
            self._decided.add_all(root.module.parameters())
        self._begin_phase()

    def _baseline_step(self) -> None:
        self._tick(EAGER)
        if self._in_phase >= self.settings.eager_steps - WATCHED:
            self._compile()

    def _choosing_step(self) -> None:
        turns = self._turns
        assert turns is not None  # noqa: S101 - the phase
        before = self.record.compile_seconds
        compiled = self._drain()
        way = Dispatch.way.name
        now = self._tick(WARM_UP if compiled else EAGER if way == EAGER_WAY else AFTER)
        compiling = max(self.record.compile_seconds - before, 1e-6) if compiled else 0.0
        if reason := self._empty_ways.find_reason(way):
            Dispatch.failed = Dispatch.failed or reason
            self._log_or_fail(self.record.warn(reason))
        if not turns.step_ended(now, compiling, self.steps.count):
            return
        for text in turns.choosing.news:
            log(text)
        turns.choosing.news.clear()
        if Dispatch.way.name != EAGER_WAY and self._chosen:
            self._compile_in_place(living(self._chosen), living(self._wrappers))
            self._chosen = []
        if turns.decided:
            self._decisions.keep(turns.choosing, self.record.cache.get("folder", ""))

    def _compiled_step(self) -> None:
        compiled = self._drain()
        self._sampling.tell_failure(self.steps.count)
        if self.phase == COMPILED and (not self.record.modules or Dispatch.way.name == EAGER_WAY):
            self._tick(EAGER)
            return
        warming_up = compiled or not self.steps.first_compiled or self._in_phase == 1
        self._tick(WARM_UP if warming_up else AFTER)

    def _tick(self, phase: str, measured: bool = True) -> float:
        return self._clock.tick(phase, self._turns, measured)

    def fail(self, fault: Exception) -> None:
        """Stop after a fault of ours: what is compiled stays so, and nothing more is done."""
        self._end_watch()
        Beside.stop()
        Dispatch.paused = False
        self.phase = FAILED
        if self._turns is not None:
            Dispatch.way = ways.WAYS[self._turns.choosing.way]
        self._log_or_fail(self.record.warn(f"nothing more is compiled or reported: {type(fault).__name__}: {fault}"))
        self.writer.write()

    # -- watching -------------------------------------------------------------------------------------------------

    def _begin_watch(self) -> None:
        if self.watch is None:
            self.watch = Watch(self.fail, self._add_hand_updated)
            self.watch.begin()
        Dispatch.paused = True  # what is compiled must not see the hooks: it would be compiled again
        if self.phase == COMPILED:
            Dispatch.failed = ""
        self.phase, self._in_phase = WATCHING, 0

    def _end_watch(self) -> None:
        if self.watch is not None:
            self.watch.end()
            self.watch = None

    def _stand_down(self, what: str) -> None:
        if self.phase in (WATCHING, BASELINE, CHOOSING) and not self.record.modules:
            self._end_watch()
            Dispatch.paused = False
            Beside.stop()
            self._configure([])
            self.phase, self._turns, self.record.choosing = OWN, None, None
            self.record.add_eager(what, "the script compiles it itself")
            log(f"the script itself compiles {what}: its modules are left as they are")

    # -- choosing -------------------------------------------------------------------------------------------------

    def _begin_phase(self) -> None:
        """Go on after the watch: it is known what is compiled, and how the way is to be found."""
        self._in_phase = 0
        if self._fixed is None:
            self._refuse_without_compiler()
        if self._fixed is None and (self.selection.chosen or self._turns is not None):
            self._begin_choosing()
            return
        self.phase = BASELINE
        if self.settings.eager_steps <= WATCHED:
            self._compile()

    def _begin_choosing(self) -> None:
        """Choose anew if modules are new; else go on."""
        self._add_eager_modules()
        if self.selection.chosen:
            self._turns = self._new_turns(self.selection.chosen)
            self._chosen += [weakref.ref(module) for module in self.selection.chosen]
            self._wrappers += [weakref.ref(module) for module in self.selection.wrappers]
        assert self._turns  # noqa: S101 - the caller has looked
        self.selection, self.phase = Selection(), CHOOSING
        Dispatch.paused = False
        self._turns.begin_block()
        self.steps.resume(time.perf_counter())

    def _new_turns(self, chosen: list[torch.nn.Module]) -> Turns:
        tried = ways.ways_to_try(self.settings, chosen)
        self._decisions.facts = torch_facts.facts_of_choice(
            chosen, self.selection.batches, tried, count_ranks(), self.settings
        )
        kept = self._agreement.as_rank_0(self._decisions.kept(self.record.cache.get("folder", ""))) or ("", "")
        baseline = max(1, self.settings.eager_steps - WATCHED)
        choosing = self.record.choosing = Choosing(tried, self.settings.budget, baseline, (kept[0], kept[1]))
        Dispatch.choosing, Dispatch.strict, Dispatch.unchecked = True, self.settings.strict, self.settings.unchecked
        if self.settings.optimizer and any(self.settings.budget):
            fuse_steps(self._optimizers.pop_new(), self.record.notes)
        beside = Beside(chosen, self.selection.wrappers, self.settings, self.record.notes)
        return Turns(choosing, self._agreement, self._began, beside)

    def _add_hand_updated(self, module: torch.nn.Module) -> None:
        self.writer.open()
        self._add_eager(EagerReason(module, BY_HAND, BY_HAND_REMEDY))

    def _compile(self) -> None:
        """Compile without choosing."""
        self.phase, self._in_phase, self._turns = COMPILED, 0, None
        Dispatch.choosing, Dispatch.strict, Dispatch.unchecked = False, self.settings.strict, self.settings.unchecked
        self._refuse_without_compiler()
        self._add_eager_modules()
        if self.selection.chosen:
            Dispatch.way = self._fixed or ways.WAYS[ways.INDUCTOR]
            self._compile_in_place(self.selection.chosen, self.selection.wrappers)
        Dispatch.paused = False
        self.selection = Selection()  # holds no module alive
        self.writer.write()

    def _refuse_without_compiler(self) -> None:
        missing = torch_facts.find_missing_compiler(self.selection.chosen) if self.selection.chosen else ""
        if missing:
            remedy = "install g++ in the image, or set DLC_COMPILER=off"
            self.selection.eager_reasons += [EagerReason(module, missing, remedy) for module in self.selection.chosen]
            self.selection.chosen = []

    def _compile_in_place(self, modules: list[torch.nn.Module], wrappers: list[torch.nn.Module]) -> None:
        self._configure(wrappers)
        names = []
        for module in modules:
            names.append(self.record.add_module(module, Selection.callers.get(module, ("", 0))))
            compile_in_place(module, names[-1], self.settings)
        log(f"compiling {', '.join(names)} with {Dispatch.way.name}, after {self.steps.count} eager steps")

    def _add_eager_modules(self) -> None:
        for reason in self.selection.eager_reasons:
            self._add_eager(reason)

    def _add_eager(self, found: EagerReason) -> None:
        remedy = f". Remedy: {found.remedy}" if found.remedy else ""
        if self.record.add_eager(found.module, found.reason, found.remedy) and found.wanted:
            self._log_or_fail(self.record.warn(f"{found.module} stays eager: {found.reason}{remedy}"))

    def _configure(self, wrappers: list[torch.nn.Module]) -> None:
        self.record.notes.extend(dynamo.configure(self.settings, wrappers))
        self.progress.listen()
        watch_compilations()

    def _drain(self) -> bool:
        if "torch._dynamo" not in sys.modules:  # its import takes seconds, and nothing was compiled
            return False
        self.progress.end_step()
        found = dynamo.drain_compilations()
        for item in dynamo.drain_breaks():
            self.record.add_graph_break(item)
        failed = len(self.record.fallbacks) + len(self.record.gave_up)
        for compilation in found:
            warning = self.record.add_compilation(compilation, self.steps.count + 1)
            if warning and len(self.record.fallbacks) + len(self.record.gave_up) > failed:
                self._log_or_fail(warning)
            elif warning:
                log(warning)
        if found:
            self.dumps.after_compiling()
            if self.record.cache.get("folder"):
                cache_digests.note_digests(self.record.cache["folder"])
        return bool(found)

    def _log_or_fail(self, text: str) -> None:
        if self.settings.strict:
            self.writer.write()
            raise settings_of.StrictError(f"DLC_COMPILER_STRICT=1: {text}")
        log(text)

    def _before_end(self) -> None:
        """Add to the report what came after the last step."""
        if self._turns is None:
            self.record.compared = dict(Dispatch.compared)
        elif self.phase == CHOOSING:
            self._turns.end(self.steps.count + 1, self._decisions, self.record.cache.get("folder", ""))
        if self.phase in (COMPILED, CHOOSING) and TWICE in str(getattr(sys, "last_value", "")):
            log(self.record.warn(f"{TWICE_WARNING}. Remedy: {TWICE_REMEDY}"))

    def prepare(self, model: torch.nn.Module, given: tuple[torch.optim.Optimizer, ...]) -> None:
        self._end_watch()
        reason = reason_against_compiling(model)
        if reason:
            self.selection.eager_reasons.append(reason)
        else:
            self.selection.wrap(model)
            select_parts(unwrap_ddp(model), self.selection, find_user_line())
        self._decided.add_all(model.parameters())
        for optimizer in given:
            self._optimizers.add(optimizer)
            self._decided.add_all(parameters_of(optimizer))
            self._primary = weakref.ref(optimizer)
        self._compile()


@functools.cache
def start() -> Session:
    """Return the process's session; begin it at the first call."""
    asked = settings_of.read_settings(os.environ)
    held = cache_folder.use_cache(os.environ)
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
