"""Facts of this process: torch's version, device, memory, precision, rank, and the C++ compiler."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import shutil
import sys

import torch

from dlc_runtime.compiler.cache.code_digest import digest_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings

GIGA = 1e9
# Compute capability of the first GPUs with it.
HAVE_TF32 = (8, 0)
# Time between samples of a GPU's use: the driver's own are means over at most that.
SECONDS_BETWEEN = 1.0
TF32_IS_OFF = (
    "float32: this GPU could multiply matrices in TF32, which keeps 10 bits of the mantissa in place of 23; "
    "DLC_COMPILER_TF32=1 lets it ({})"
)
TF32_IS_ON = (
    "float32: matrices are multiplied in TF32, with 10 bits of the mantissa in place of 23 (DLC_COMPILER_TF32=1)"
)


class Utilization(ctypes.Structure):
    """Percent of the driver's last sample, by NVML's nvmlUtilization_t."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Gpu:
    """How busy this process's GPU is, by the driver: asked for at most once a second, between two steps."""

    def __init__(self, library: Any = None) -> None:
        self._library, self._device = library, ctypes.c_void_p()
        self._next, self._tried = 0.0, False
        self.samples, self._percent = 0, 0

    def sample(self, now: float) -> None:
        """Ask the driver at `now`, in seconds. Do nothing before the script uses a GPU."""
        if now < self._next or not torch.cuda.is_initialized():
            return
        self._next = now + SECONDS_BETWEEN
        if not self._tried:
            self._tried = True
            self._library = self._opened()
        use = Utilization()
        if self._library and not self._library.nvmlDeviceGetUtilizationRates(self._device, ctypes.byref(use)):
            self.samples, self._percent = self.samples + 1, self._percent + int(use.gpu)

    @property
    def busy(self) -> float:
        """Return a share of the time, from 0 to 1."""
        return self._percent / self.samples / 100 if self.samples else 0.0

    def _opened(self) -> Any:
        """Load NVML; return None if it or this GPU is not found."""
        try:
            library = self._library or ctypes.CDLL("libnvidia-ml.so.1")
            uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        except (OSError, AttributeError):
            # AttributeError: a torch that does not tell which GPU it is.
            return None
        refused = library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device))
        return None if refused else library


class Peaks:
    """The peaks of the GPU's memory since a block began. The script goes on to see those since its own reset."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._read: Any = None
        self._reset: Any = None

    def begin(self) -> None:
        if self._read is None:
            self._read, self._reset = torch.cuda.memory_stats, torch.cuda.reset_peak_memory_stats
            places: tuple[Any, ...] = (torch.cuda, torch.cuda.memory)
            for place in places:
                place.memory_stats, place.reset_peak_memory_stats = self._stats, self._reset_by_script
        self._held = {name: value for name, value in self._stats().items() if name.endswith(".peak")}
        self._reset()

    def bytes(self) -> int:
        return int(self._read().get("allocated_bytes.all.peak", 0)) if self._read is not None else 0

    def _stats(self, device: Any = None) -> Any:
        found = self._read(device)
        found.update((name, max(value, found.get(name, 0))) for name, value in self._held.items())
        return found

    def _reset_by_script(self, device: Any = None) -> None:
        self._held = {}
        self._reset(device)


gpu, peaks = Gpu(), Peaks()
_training: dict[str, Any] = {"float32": False, "tf32": None}


def use_tf32() -> None:
    """Let torch use TF32, as the job asked with DLC_COMPILER_TF32=1."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")


def note_training(parameters: Iterable[torch.Tensor], autocast: bool) -> None:
    """Remember whether a GPU multiplies matrices in float32 here."""
    _training["float32"] = not autocast and any(p.is_cuda and p.dtype == torch.float32 for p in parameters)


def facts() -> dict[str, Any]:
    """Leave out `rank` until the script has joined a group: it may give itself a rank after we started.

    notes: sentences for the report.
    """
    device = str(torch.cuda.get_device_name()) if torch.cuda.is_initialized() else "cpu"
    found: dict[str, Any] = {"framework": f"torch {torch.__version__}", "device": device, "notes": report_notes()}
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        found["rank"] = distributed.get_rank()
    return found


def facts_of_choice(
    modules: Iterable[torch.nn.Module], batches: list[list[str]], tried: list[str], ranks: int, settings: Settings
) -> dict[str, Any]:
    """Return what a choice depends on, beside the image and the machine that the cache's folder is for."""
    transformers, held = sys.modules.get("transformers"), list(modules)
    return {
        "modules": [f"{type(module).__qualname__} {module_digest(module)}" for module in held],
        "code": digest_code(code_of_modules(held)),
        "batches": batches,
        "tried": tried,
        "world": ranks,
        "threads": torch.get_num_threads(),
        "device": facts()["device"],
        "torch": str(torch.__version__),
        "transformers": str(getattr(transformers, "__version__", "")),
        "dynamic": settings.dynamic,
        "budget": settings.budget,
    }


def code_of_modules(modules: Iterable[torch.nn.Module]) -> list[Any]:
    """Return the classes of modules and of their parts, and each forward that a script has set on an object."""
    parts = [part for module in modules for part in module.modules()]
    return [*{type(part) for part in parts}, *(vars(part)["forward"] for part in parts if "forward" in vars(part))]


def module_digest(module: torch.nn.Module) -> str:
    """Hash the names, shapes and formats of a module's parameters."""
    described = [(name, tuple(value.shape), str(value.dtype)) for name, value in module.named_parameters()]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]


def report_notes() -> list[str]:
    attention: Any = sys.modules.get("dlc_runtime.compiler.pytorch.attention")  # not imported: nothing was compiled
    found = attention.report_notes() if attention is not None else []
    return [*found, *report_gpu_notes()] if torch.cuda.is_initialized() else found


def report_gpu_notes() -> list[str]:
    """Tell the most GPU memory that tensors took, how busy the GPU was, and TF32."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    peak, total = torch.cuda.max_memory_allocated() / GIGA, properties.total_memory / GIGA
    busy = f"; busy {gpu.busy:.0%} of the time ({gpu.samples} samples)" if gpu.samples else ""
    found = [f"{properties.name}: tensors took at most {peak:.1f} of {total:.0f} GB{busy}"]
    if could_use_tf32():
        won = _training["tf32"]
        told = f"eager, forward and backward of the first batch: {won}" if won else "what it would win was not measured"
        is_off = torch.get_float32_matmul_precision() == "highest"
        found.append(TF32_IS_OFF.format(told) if is_off else TF32_IS_ON)
    return found


def could_use_tf32() -> bool:
    """Tell whether a GPU that has TF32 multiplies matrices of float32 here."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return bool(_training["float32"]) and (properties.major, properties.minor) >= HAVE_TF32


def note_tf32(measure: Callable[[], str]) -> None:
    """Let `measure` find out, once, what TF32 would win."""
    if torch.cuda.is_initialized() and _training["tf32"] is None and could_use_tf32():
        _training["tf32"] = measure() if torch.get_float32_matmul_precision() == "highest" else ""


def horovod_of_ranks() -> Any:
    """Return Horovod's module for torch if it has several ranks, else None."""
    horovod = sys.modules.get("horovod.torch")
    try:
        return horovod if horovod is not None and horovod.is_initialized() and horovod.size() > 1 else None
    except Exception:
        # A build of Horovod without this.
        return None


def find_missing_compiler(modules: list[torch.nn.Module]) -> str:
    """Return a sentence if a C++ compiler is needed and missing, else ""."""
    if all(parameter.device.type != "cpu" for module in modules for parameter in module.parameters()):
        return ""
    name = os.environ.get("CXX", "g++")
    return "" if shutil.which(name) else f"there is no C++ compiler here ({name})"


def skip_needless_work() -> None:
    """Stop inductor from doing again, in each process, what its cache can tell."""
    skip_needless_headers()
    remember_vector_instructions()


def skip_needless_headers() -> None:
    """Stop inductor from precompiling headers for code that its cache holds compiled.

    They take longest of all that it compiles, and lie in the temporary folder, which the next job does not have.
    """
    from torch._inductor import codecache

    original = getattr(codecache, "_precompile_header", None)  # what has none precompiles none
    if original is None or original.__module__ == __name__:
        return

    @functools.wraps(original, assigned=())
    def precompiled_header(*arguments: Any, **named: Any) -> Any:
        # The caller asks for the header of this file.
        source = sys._getframe(1).f_locals.get("main_path")
        if isinstance(source, str) and os.path.exists(f"{os.path.splitext(source)[0]}.so"):
            return ""  # compiles nothing
        return original(*arguments, **named)

    codecache._precompile_header = precompiled_header


# Beside a library that was built to try a set of vector instructions: it could be loaded on this kind of processor.
LOADED = ".loaded"


def remember_vector_instructions() -> None:
    """Stop inductor from starting ten processes that load its trial libraries.

    The cache is of one kind of processor, and what could be loaded once can be loaded again.
    """
    from torch._inductor.cpu_vec_isa import VecISA

    original = getattr(VecISA, "_probe_load", None)
    if original is None or original.__module__ == __name__:
        return

    @functools.wraps(original, assigned=())
    def load_once(self: Any, path: str) -> bool:
        if os.path.exists(path + LOADED):
            return True
        loads = bool(original(self, path))
        if loads:
            with contextlib.suppress(OSError), open(path + LOADED, "w", encoding="utf-8"):
                pass
        return loads

    VecISA._probe_load = load_once
