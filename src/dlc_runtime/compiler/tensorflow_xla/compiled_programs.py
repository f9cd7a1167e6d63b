"""Reads the programs that XLA has compiled, from its folder into the report. Imports no framework.

A program is a protocol buffer: its second field holds the program before compiling, with name (1), computations (3)
and shapes (4). What cannot be read has no name and no shapes.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from dlc_runtime.compiler.report.record import Record, location_text
from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dlc_runtime.compiler.report.record import RecompileCause

# Bytes of one program that are read.
MOST_BYTES = 256 << 20
TYPES = {1: "bool", 2: "int8", 4: "int32", 5: "int64", 10: "float16", 11: "float32", 12: "float64", 16: "bfloat16"}


class Program(NamedTuple):
    name: str
    shapes: tuple[str, ...]
    operations: int


class Programs:
    """The folder of XLA's programs. `private`: each file is deleted when it was read."""

    def __init__(self, folder: str, private: bool) -> None:
        self.folder, self._private = folder, private
        self._changed = -1
        self._seen: set[str] = set()
        self.new()

    def new(self) -> list[Program]:
        """Return the programs that were written since the last call."""
        try:
            changed = os.stat(self.folder).st_mtime_ns if self.folder else self._changed
        except OSError:  # XLA makes the folder
            return []
        if changed == self._changed:
            return []
        self._changed = changed
        names = sorted({name for name in os.listdir(self.folder) if name.endswith(".pb")} - self._seen)
        self._seen.update(names)
        return [self._read(os.path.join(self.folder, name)) for name in names]

    def _read(self, path: str) -> Program:
        try:
            with open(path, "rb") as stream:
                content = stream.read(MOST_BYTES)
            if self._private:
                os.unlink(path)
            return parse_program(content)
        except (OSError, ValueError, IndexError):
            return Program("", (), 0)


def parse_program(content: bytes) -> Program:
    module = next((value for field, value in parse_fields(content) if field == 2 and isinstance(value, bytes)), b"")
    name, operations = "", 0
    shapes: tuple[str, ...] = ()
    for field, value in parse_fields(module):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            name = plain_name(value.decode(errors="replace"))
        elif field == 3:
            operations += sum(1 for inner, _ in parse_fields(value) if inner == 2)
        elif field == 4:
            shapes = tuple(
                parse_shape(part) for inner, part in parse_fields(value) if inner == 1 and isinstance(part, bytes)
            )
    return Program(name, shapes, operations)


def plain_name(name: str) -> str:
    """Return `step` for `a_inference_step_57__.3` and `__inference_step_57[].3`; a cluster keeps its number."""
    found = re.match(r"(?:a|_)?_?inference_(.+?)_\d+(?:\[|__|\.|$)", name.lstrip("_"))
    return found[1] if found else re.split(r"\[|__|\.", name)[0]


def parse_shape(content: bytes) -> str:
    """Return a shape such as float32[8,64]."""
    kind = 0
    sizes: list[int] = []
    for field, value in parse_fields(content):
        if field == 2 and isinstance(value, int):
            kind = value
        elif field == 3 and isinstance(value, bytes):
            sizes.extend(parse_numbers(value))
        elif field == 3 and isinstance(value, int):
            sizes.append(value)
    return f"{TYPES.get(kind, 'type ' + str(kind))}[{','.join(map(str, sizes))}]"


def parse_numbers(content: bytes) -> Iterator[int]:
    place = 0
    while place < len(content):
        value, place = parse_number(content, place)
        yield value


def parse_number(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def parse_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a protocol buffer."""
    place = 0
    while place < len(content):
        key, place = parse_number(content, place)
        kind = key & 7
        if kind == 0:
            value, place = parse_number(content, place)
            yield key >> 3, value
            continue
        size = 8
        if kind == 2:
            size, place = parse_number(content, place)
        elif kind == 5:
            size = 4
        elif kind != 1:
            raise ValueError(f"no protocol buffer: a field of kind {kind}")
        if place + size > len(content):
            raise ValueError("half a protocol buffer")
        yield key >> 3, content[place : place + size]
        place += size


def describe_difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Name the first argument with another shape, or return ""."""
    for number, (before, after) in enumerate(zip(old, new)):
        if before != after:
            return f"argument {number} is {after}, it was {before}"
    return "" if len(old) == len(new) else f"{len(new)} arguments, there were {len(old)}"


RANDOM = (
    "{} draws random numbers that XLA draws otherwise, so the losses are not those of a job without it; the same are "
    "the float32 numbers of stateless_uniform and stateless_normal of tf.random, and of a tf.random.Generator"
)
LONGEST = 400  # characters of an error's text
FRAME = r"Graph execution error|Detected at node|<stack traces|\[\[|File \"|\w*Error in user code|Traceback"
LOADS = "TensorFlow prints error lines (cpu_aot_loader, XlaSerializedCacheEntry) as it loads from the cache: no harm"


class XlaRecord(Record):
    """A record by the programs in XLA's folder."""

    def __init__(self) -> None:
        super().__init__()
        self._hits = self._misses = 0

    def add_compiled(self, name: str, file: str, line: int, parameters: int, random: bool) -> None:
        """Add a function. `random`: it draws numbers that XLA draws otherwise."""
        note = RANDOM.format(name)
        if random and note not in self.notes:
            self.notes.append(note)
        entry = {"module": name, "file": file, "line": line, "parameters": parameters}
        if entry not in self.modules:
            self.modules.append(entry)

    def add_programs(
        self, where: dict[str, Any], seconds: float, programs: list[Program], first: bool, observed: bool
    ) -> None:
        """Add what a call compiled. `first`: the first compiled call; without a new program it came from the cache."""
        self._misses += len(programs)
        for program in programs:
            identifier = f"{program.name or 'program'}/{len(self.graphs)}"
            self.add_graph(identifier, where, seconds / len(programs), program.operations)
        if programs or not first:
            return
        self.add_graph(f"{where['function']}/{len(self.graphs)}", where, seconds, 0)
        if observed:
            self._hits += 1
            if LOADS not in self.notes:
                self.notes.append(LOADS)

    def add_given_up(self, times: int, where: dict[str, Any], cause: RecompileCause) -> str:
        """Return the warning that a function was compiled again so often that it runs without XLA."""
        self.gave_up.append({**where, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy})
        return self.warn(
            f"XLA has compiled {location_text(where)} again {times} times: it runs without XLA from step "
            f"{where['step'] + 1} on. Last cause: {cause.text}. Remedy: {cause.remedy}"
        )

    def add_failure(self, where: dict[str, Any], fault: Exception, lost: int) -> str:
        """Return the warning. `lost`: batches that no step trained on."""
        reason, (file, line) = short_reason(str(fault)), find_user_line_in(str(fault))
        entry = {**where, "type": type(fault).__name__, "reason": reason}
        if file:
            entry.update(failed_file=file, failed_line=line)
        self.fallbacks.append(entry)
        at = f" ({file}:{line})" if file else ""
        skipped = f" {lost} batches were skipped." if lost else ""
        return self.warn(
            f"XLA does not take {location_text(where)} as a whole, so its parts are compiled (auto-clustering): "
            f"{type(fault).__name__}: {reason}{at}.{skipped}"
        )

    def cache_counts(self) -> tuple[int, int]:
        return (self._hits, self._misses) if self.cache.get("folder") else (0, 0)


def find_user_line_in(message: str) -> tuple[str, int]:
    """Return the last line of the user's in an error's stack, or ("", 0)."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', message)
    return next(((file, int(line)) for file, line in reversed(frames) if is_user_code(file)), ("", 0))


def short_reason(message: str) -> str:
    """Return one line, with the operations that XLA lacks if it names them."""
    lacks = re.findall(r"(\w+) \(No registered", message)
    if lacks:
        return f"XLA lacks {', '.join(dict.fromkeys(lacks))}"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(FRAME, line)]
    return (telling or lines or [""])[0][:LONGEST]
