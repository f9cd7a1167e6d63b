"""The record of what one process has compiled, and why it compiled again."""

from __future__ import annotations

import re
from typing import NamedTuple

from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.choosing.choosing import Choosing

MOST = 500  # entries of each list
# Recompilations of one function; then at each doubling.
FIRST_WARNING = 3


class Record:
    """What one process has compiled. `where`: function, file, line and step."""

    def __init__(self) -> None:
        self.modules: list[dict[str, Any]] = []
        self.eager: list[dict[str, Any]] = []
        self.graphs: dict[str, dict[str, Any]] = {}
        self.recompilations: list[dict[str, Any]] = []
        self.breaks: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.fallbacks: list[dict[str, Any]] = []
        self.gave_up: list[dict[str, Any]] = []
        # Function and seconds of what is being compiled.
        self.compiling: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        # Way -> how it was compared with eager, of a job that does not choose by measuring.
        self.compared: dict[str, str] = {}
        self.cache: dict[str, Any] = {}
        self.compile_seconds = 0.0
        # Also those beyond MOST.
        self.graphs_made = 0
        # None if the way is not chosen by measuring.
        self.choosing: Choosing | None = None
        # Of each function, if there may be several; `choosing` is that of the first.
        self.choices: dict[str, Choosing] = {}
        self._recompiled: dict[tuple[str, int, str], int] = {}

    def _choosing_as_json(self) -> dict[str, Any]:
        found = self.choosing.as_json() if self.choosing is not None else {}
        if self.choices:
            found["candidates"] = []
        for name, choosing in self.choices.items():
            for candidate in choosing.as_json()["candidates"]:
                found["candidates"].append({"function": name, **candidate})
        return found

    def add_eager(self, module: str, reason: str, remedy: str = "") -> bool:
        """Return whether the entry is new."""
        entry = {"module": module, "reason": reason, "remedy": remedy}
        if entry in self.eager:
            return False
        self.eager.append(entry)
        return True

    def add_graph(self, identifier: str, where: dict[str, Any], seconds: float, operations: int) -> None:
        self.graphs_made += 1
        if len(self.graphs) < MOST:
            self.graphs[identifier] = {
                "id": identifier,
                **where,
                "seconds": seconds,
                "backward_seconds": 0.0,
                "operations": operations,
            }

    def add_recompilation(self, where: dict[str, Any], seconds: float, cause: RecompileCause) -> str:
        """Return a warning, or ""."""
        entry = {**where, "seconds": seconds, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy}
        if len(self.recompilations) < MOST:
            self.recompilations.append(entry)
        key = (where["file"], where["line"], where["function"])
        count = self._recompiled[key] = self._recompiled.get(key, 0) + 1
        if count < FIRST_WARNING or (count // FIRST_WARNING) & (count // FIRST_WARNING - 1) or count % FIRST_WARNING:
            return ""
        return self.warn(
            f"{location_text(where)} was compiled again {count} times, last at step {where['step']}: {cause.text}"
            f"{remedy_text(cause.remedy)}"
        )

    def add_gave_up(self, compiler: str, where: dict[str, Any], cause: RecompileCause) -> str:
        """Return the warning that `compiler` compiles a function no more."""
        self.gave_up.append({**where, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy})
        return self.warn(
            f"{compiler} gave up on {location_text(where)} at step {where['step']}: from now on what it has not "
            f"compiled yet runs eager. Last cause: {cause.text}{remedy_text(cause.remedy)}"
        )

    def add_fallback(self, where: dict[str, Any], kind: str, reason: str, failed_at: tuple[str, int] = ("", 0)) -> str:
        """Return the warning that a function does not compile. `failed_at`: a line."""
        entry = {**where, "type": kind, "reason": reason}
        if failed_at[0]:
            entry.update(failed_file=failed_at[0], failed_line=failed_at[1])
        if len(self.fallbacks) < MOST:
            self.fallbacks.append(entry)
        return self.warn(f"{location_text(where)} runs eager, it does not compile: {kind}: {reason}")

    def add_break(self, reason: str, stack: tuple[tuple[str, int], ...]) -> None:
        """Count a graph break. `stack`: files and lines, outermost first."""
        file, line = innermost_user_frame(stack)
        entry = self.breaks.setdefault(
            (file, line, reason), {"reason": reason, "file": file, "line": line, "count": 0, "stack": list(stack)}
        )
        entry["count"] += 1

    def warn(self, text: str) -> str:
        if len(self.warnings) < MOST:
            self.warnings.append(text)
        return text

    def cache_counts(self) -> tuple[int, int]:
        """Return hits and misses of the compile cache, if the compiler tells."""
        return 0, 0

    def as_json(self) -> dict[str, Any]:
        hits, misses = self.cache_counts()
        return {
            "compile_seconds": round(self.compile_seconds, 6),
            "cache": self.cache,
            "notes": self.notes,
            "compared": self.compared,
            "cache_hits": hits,
            "cache_misses": misses,
            "modules": self.modules,
            "eager": self.eager,
            "graphs": list(self.graphs.values()),
            "recompilations": self.recompilations,
            "graph_breaks": list(self.breaks.values()),
            "fallbacks": self.fallbacks,
            "gave_up": self.gave_up,
            "compiling": list(self.compiling),
            "warnings": self.warnings,
            "choosing": self._choosing_as_json(),
        }


def location_text(where: dict[str, Any]) -> str:
    return f"{where['function']} ({where['file']}:{where['line']})"


def remedy_text(remedy: str) -> str:
    """Return the end of a sentence, with a remedy if there is one."""
    return f". Remedy: {remedy}" if remedy else ""


def innermost_user_frame(stack: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """Return the user's line nearest to a break, else its own."""
    users = [frame for frame in stack if is_user_code(frame[0])]
    return (users or list(stack) or [("", 0)])[-1]


SHAPE = (
    "pad to one length (padding='max_length'), drop the last smaller batch (drop_last=True), or use few bucket lengths"
)
LAYOUT = "call .contiguous() on it before the model gets it"
DTYPE = "give it the same dtype in every step"
NUMBER = "do not change this number in the model, or keep it in a tensor (register_buffer)"
VALUE = "give the model the same value in every step"
GROWING = "do not collect things in lists or dictionaries inside the model or its hooks"
KEYS = "give the model the same keys in every step"
MODE = "train and evaluate in longer stretches, each in one mode"
GRADIENT = "choose before the training what requires a gradient, and leave it so"
HOOK = "register hooks before training, and leave them"
TYPE = "give the model values of the same class in every step"
OTHER = ""  # nothing to change


class RecompileCause(NamedTuple):
    kind: str
    text: str
    remedy: str
    """"" if nothing in the script is known to avoid it."""


TENSOR = r"tensor '(?P<what>.+?)' "
CHANGED = r" expected (?P<old>.+?),? actual (?P<new>.+)"
NAME = r"(?P<what>[\w.\[\]'\"]+)"
# Conditions for what Dynamo compiled: kind, pattern, words with the pattern's groups by name (or `condition` for the
# whole), and remedy. The first that matches is taken: exact forms come first.
GUARDS = (
    ("hook", NAME[:-2] + r"*?)\.?_\w*hooks\b", "the hooks of {what} are not those it was compiled with", HOOK),
    (
        "shape",
        TENSOR + r"size mismatch at index (?P<at>\d+)\." + CHANGED,
        "{what} has size {new} in dimension {at}, and was compiled for {old}",
        SHAPE,
    ),
    (
        "shape",
        TENSOR + r"rank mismatch\." + CHANGED,
        "{what} has {new} dimensions, and was compiled for {old}",
        SHAPE,
    ),
    (
        "layout",
        TENSOR + r"stride mismatch at index (?P<at>\d+)\." + CHANGED,
        "{what} lies in memory with stride {new} in dimension {at}, and was compiled for {old}",
        LAYOUT,
    ),
    ("dtype", TENSOR + r"dtype mismatch\." + CHANGED, "{what} is {new}, and was compiled for {old}", DTYPE),
    (
        "gradient",
        TENSOR + r"requires_grad mismatch",
        "{what} requires a gradient in some steps, and in others not",
        GRADIENT,
    ),
    (
        "shape",
        NAME + r"\.(?:size\(\)|shape)\[(?P<at>\d+)\] == (?P<old>\d+)$",
        "{what} does not have size {old} in dimension {at}, for which it was compiled",
        SHAPE,
    ),
    ("shape", r"\.size\(\)|\.shape\b|Ne\(|Eq\(", "sizes are not as when it was compiled: {condition}", SHAPE),
    ("shape", TENSOR, "{what} is another kind of tensor than it was compiled for: {condition}", DTYPE),
    ("mode", NAME + r"\.training\b", "{what} was switched between train() and eval()", MODE),
    ("mode", r"GLOBAL_STATE changed: (?P<what>.+?)\s*$", "torch runs in another mode: {what}", MODE),
    ("mode", r"grad_mode|GLOBAL_STATE|inference", "torch runs in another mode: {condition}", MODE),
    ("gradient", r"requires_grad", "other tensors require a gradient: {condition}", GRADIENT),
    (
        "collection",
        r"\blen\(" + NAME + r"\) == (?P<old>\d+)",
        "the number of elements in {what} is not {old}, as when it was compiled",
        GROWING,
    ),
    ("collection", r"\blen\(", "a list or dictionary has grown or shrunk: {condition}", GROWING),
    ("keys", r"___dict_contains\(.+?, " + NAME + r"\)", "{what} has other keys than it was compiled with", KEYS),
    ("keys", r"\bkeys\(\)", "a dictionary has other keys: {condition}", KEYS),
    ("number", NAME + r" == (?P<old>-?[\d.e+-]+)$", "{what} is not {old}, as when it was compiled", NUMBER),
    ("number", r"integer attributes|float", "a number is another one: {condition}", NUMBER),
    ("value", NAME + r" == (?P<old>['\"\w].*)$", "{what} is not {old}, as when it was compiled", VALUE),
    ("type", r"___check_type_id\((?P<what>.+?), ", "{what} is of another class than when it was compiled", TYPE),
    ("object", r"___check_obj_id\((?P<what>.+?), ", "{what} is another object than when it was compiled", OTHER),
    ("object", NAME + r" is (?!not )\S+$", "{what} is another object than when it was compiled", OTHER),
    ("object", r"invalidated because (?P<what>.+?) got deallocated", "{what} of that time is gone", OTHER),
    ("collection", r"^not " + NAME + "$", "{what} was empty when it was compiled, and is not", GROWING),
)
# Dynamo's words for the parts of a module.
PARTS = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
# Variables of a module, and of a function.
GLOBAL = re.compile(r"\b[GL]\[(['\"])(\w+)\1\]")

MODULE = re.compile(r"\b__import_\w+\.")  # that a variable is of
# What a function that a graph break has cut goes on with.
STACK = re.compile(r"\b___stack\w*")


def cause_of(reason: str) -> RecompileCause:
    """Return the cause in Dynamo's `reason`: "1/0: tensor 'x' size mismatch at index 1. expected 16, ...".

    After "#" Dynamo names the line of the script that the condition comes from: see `lines_of`.
    """
    first = reason.split("\n")[0].split("(HINT:")[0]
    condition = first.partition("  #")[0].strip() or first.strip()
    condition = re.sub(r"^\d+/\d+:\s*", "", condition)
    condition = MODULE.sub("", GLOBAL.sub(r"\2", PARTS.sub(r".\1", condition)))
    for kind, pattern, words, remedy in GUARDS:
        found = re.search(pattern, condition)
        if found:
            groups = {name: text.rstrip(".") for name, text in found.groupdict().items()}
            text = words.format(condition=condition, **groups)
            return RecompileCause(kind, STACK.sub("an intermediate value", text), remedy)
    return RecompileCause("other", f"this does not hold any more: {condition}", OTHER)


def lines_of(reason: str) -> list[str]:
    """Return file:line of each place that Dynamo names, innermost last; folders may be cut off."""
    named = re.findall(r'File "(.+?)", line (\d+)', reason)
    if not named:
        named = re.findall(r"#[^#\n]*?([^\s#]+\.py):(\d+) in ", reason.split("\n")[0])
    return [f"{file}:{line}" for file, line in named]
