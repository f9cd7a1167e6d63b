"""Compiles a way beside the eager training: a forked child fills the cache, then the training loads the code.

The child is forked when the training calls the module, so it has the module and a batch. It compiles for the cache
only: none of the code runs in it, because OpenMP's threads do not live in a forked child. A child of its own compiles
first, then it does itself what the training will do, and tells how long that takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import threading
import warnings
import weakref

import torch

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.choosing.choosing import LOADING
from dlc_runtime.compiler.hooks import living, log
from dlc_runtime.compiler.pytorch import dynamo, torch_facts
from dlc_runtime.compiler.pytorch.compile_once import ForCache, has_other_ranks
from dlc_runtime.compiler.pytorch.dispatch import Dispatch, must_be_eager, talks_to_ranks
from dlc_runtime.compiler.pytorch.in_place import COMPILED, compile_in_place, hide_from_scripting
from dlc_runtime.compiler.pytorch.module_selection import is_sharded
from dlc_runtime.compiler.pytorch.ways import WAYS, has_parameters, repeated_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, ClassVar

    from dlc_runtime.compiler.settings import Settings

# What compiling takes without a cache, about: docs/measurements.md.
COLD_SECONDS, SECONDS_OF_LAYER = 20.0, 0.2
# The rank of a host that compiles for the others, as torchrun, Open MPI and Horovod name it.
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK")
LOWEST_PRIORITY, FIRST_TO_KILL = 19, "1000"
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


class Beside:
    """The ways of one training that are compiled beside it, one module at a time."""

    # Of this process: a new choice ends that of the one before.
    _child: ClassVar[Child | None] = None

    def __init__(
        self,
        modules: list[torch.nn.Module],
        wrappers: list[torch.nn.Module],
        settings: Settings,
        notes: list[str],
    ) -> None:
        self._modules = [weakref.ref(module) for module in modules]
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]
        self._settings, self._notes = settings, notes
        # Way -> seconds of loading it, of the modules that are compiled.
        self._loading: dict[str, list[float]] = {}
        self._failed: set[str] = set()
        self._way = ""
        self.stop()

    def expected(self, way: str, longest: float) -> float:
        """Return how long the training would wait for a way about. `longest`: seconds of compiling, of another way."""
        if not way or not is_first_of_host():
            return 0.0
        loading = self._loading.get(way, [])
        if way not in self._failed and len(loading) == len(self._modules):
            return sum(loading)
        return max(longest, COLD_SECONDS + SECONDS_OF_LAYER * count_layers(living(self._modules), way))

    def begin(self, way: str, step: int) -> None:
        """Let the next call of the next module fork a child that compiles it."""
        if Beside._child is not None or not self._can(way):
            return
        waiting = living(self._modules)[len(self._loading.setdefault(way, [])) :]
        if not waiting:
            return
        if self._way != way:
            self._way = way
            self._tell(f"{way} is compiled beside the training, from step {step + 1} on")
        Beside._child = Child(waiting[0], lambda module, call: self._compile(module, way, call))

    def poll(self, step: int) -> None:
        """Look whether the child has ended."""
        if Beside._child is None or not Beside._child.has_ended():
            return
        seconds, compiled = Beside._child.result
        Beside._child = None
        if seconds is None:
            self._failed.add(self._way)
            self._tell(f"{self._way} could not be compiled beside the training: {compiled}")
            return
        self._loading[self._way].append(seconds)
        if len(self._loading[self._way]) == len(self._modules):
            took = sum(self._loading[self._way])
            self._tell(f"{self._way} was compiled beside the training up to step {step}, loading it takes {took:.1f} s")

    @staticmethod
    def stop() -> None:
        """End the child: what it compiles is not needed, or is compiled in the training now."""
        if Beside._child is not None:
            Beside._child.stop()
            Beside._child = None

    def _can(self, way: str) -> bool:
        modules = living(self._modules)
        return (
            way not in self._failed
            and len(modules) == len(self._modules)
            and is_first_of_host()
            and self._settings.backend == settings_of.INDUCTOR
            and "backend" not in WAYS[way].options
            and torch.__version__ >= (2, 5)  # a TorchVersion; older ones have no cache of graphs
            and not torch.cuda.is_initialized()
            and torch_facts.horovod_of_ranks() is None
            and all(parameter.device.type == "cpu" for module in modules for parameter in module.parameters())
            and not any(is_sharded(module) or talks_to_ranks(module) for module in modules)
        )

    def _compile(self, module: torch.nn.Module, way: str, call: Callable[[Any], Any]) -> None:
        """Compile in the child."""
        ForCache.only = True
        # Code is made for as many threads as the training has.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.get_num_threads = lambda: threads
        dynamo.configure(self._settings, living(self._wrappers))
        import torch._inductor.config as inductor

        inductor.compile_threads = 1
        Dispatch.choosing = False
        compile_in_place(module, type(module).__name__, self._settings)
        dispatch = getattr(module, COMPILED)
        Dispatch.way = WAYS[way]
        call(dispatch._function(WAYS[way], module))

    def _tell(self, text: str) -> None:
        self._notes.append(text)
        log(text)


class Child:
    """A child that is forked at the module's next call in the training."""

    def __init__(self, module: torch.nn.Module, work: Callable[[torch.nn.Module, Callable[[Any], Any]], None]) -> None:
        self._work = work
        self._parent, self._process, self._pipe, self._said = os.getpid(), 0, -1, b""
        self.result: tuple[float | None, str] = None, "it was not begun"
        hide_from_scripting()
        self._fork = ForkAtCall(module, self.fork)

    def fork(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Fork in a call of the module."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that other threads are not there in the child
            self._pipe, writing = os.pipe()
            self._process = os.fork()
        if self._process == 0:
            run_child(writing, lambda: self._work(module, lambda function: function(module, *arguments, **named)))
        os.close(writing)
        os.set_blocking(self._pipe, False)

    def has_ended(self) -> bool:
        if not self._process:
            return False
        try:
            part = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return False
        self._said += part
        if part:
            return False
        self._reap()
        try:
            self.result = json.loads(self._said)
        except ValueError:
            self.result = None, "its process was ended"
        return True

    def stop(self) -> None:
        self._fork.remove()
        # A process that the script forks has no child of ours.
        if self._process and os.getpid() == self._parent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            self._reap()

    def _reap(self) -> None:
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):  # the script has waited for any child
            os.waitpid(self._process, 0)


class ForkAtCall:
    """Stands for one call of a module in training; then the module is as before."""

    def __init__(self, module: torch.nn.Module, fork: Callable[..., None]) -> None:
        self._module, self._fork = weakref.ref(module), fork
        self._mode, self._before = module.training, getattr(module, COMPILED, None)
        setattr(module, COMPILED, self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self._module()
        assert module is not None  # noqa: S101 - the module is calling
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and module.training == self._mode and torch.is_grad_enabled() and not must_be_eager():
            self.remove()
            self._fork(module, arguments, named)
        return (self._before or module._call_impl)(*arguments, **named)

    def remove(self) -> None:
        module = self._module()
        if module is not None and getattr(module, COMPILED, None) is self:
            setattr(module, COMPILED, self._before)

    def __reduce__(self) -> tuple[Any, ...]:
        # As a Dispatch: a copied module is an eager one.
        return type(None), ()


def run_child(writing: int, work: Callable[[], None]) -> None:
    """Compile in a grandchild, then in this child what the training will do; write how long that took; never return."""
    try:
        leave_training(writing)
        grandchild = os.fork()
        if grandchild == 0:
            kill_with_parent()
            work()
            os._exit(0)
        _, status = os.waitpid(grandchild, 0)
        if status:
            raise RuntimeError(f"the compiler's process ended with {status}")
        begun = cpu_seconds()
        work()
        said: tuple[float | None, str] = max(LOADING / 10, cpu_seconds() - begun), ""
    except BaseException as fault:
        said = None, f"{type(fault).__name__}: {fault}"
    try:
        os.write(writing, json.dumps(said)[:4000].encode())
    finally:
        os._exit(0)


def leave_training(writing: int) -> None:
    """Touch nothing of the training: its output, files, connections and handlers of signals are not the child's."""
    kill_with_parent()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    # Objects of the parent that are deleted here close these numbers: they must not be those of new files.
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (writing, nothing):
            with contextlib.suppress(OSError):
                os.fstat(int(name))
                os.dup2(nothing, int(name))
    os.nice(LOWEST_PRIORITY)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write(FIRST_TO_KILL)


def kill_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def cpu_seconds() -> float:
    """Return seconds of this process and its children: the host may be busy, and this one is the last to get time."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def is_first_of_host() -> bool:
    """Tell whether this rank compiles for its host. Of ranks that tell no local number each says so."""
    if not has_other_ranks():
        return True
    return next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), "0") == "0"


def count_layers(modules: list[torch.nn.Module], way: str) -> int:
    """Return how many layers a way compiles; of repeated blocks one of each kind."""
    parts = [kind[0] for module in modules for kind in repeated_blocks(module)] if WAYS[way].regional else modules
    return sum(has_parameters(layer) for part in parts for layer in part.modules())
