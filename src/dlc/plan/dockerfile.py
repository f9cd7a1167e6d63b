"""Reads a Dockerfile as far as its promises go: instructions with lines, stages, arguments, and their sources."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

# BuildKit sets these itself or takes them without an ARG; programs read them from the environment.
PREDEFINED = frozenset(
    f"{name}" for base in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
    for name in (base, base.upper())
) | {"SOURCE_DATE_EPOCH", "DLC_CONTENT_KEY", "BUILDKIT_INLINE_CACHE", "BUILDKIT_SYNTAX"} | frozenset(
    f"{side}{part}" for side in ("TARGET", "BUILD") for part in ("PLATFORM", "OS", "ARCH", "VARIANT")
)  # fmt: skip
HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
VARIABLE = re.compile(r"(?<!\\)\$(?:\{([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*))")
REFERENCE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::?-(?P<fallback>[^}]*))?[^}]*\}|(?P<bare>\w+))")
SECRET = re.compile(r"--mount=type=secret,id=([A-Za-z0-9_]+)(?= |$)", re.MULTILINE)
MOUNT_FROM = re.compile(r"(?:^|,)from=([^,]+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction, continuation lines and here-documents joined; `line` is its first, from 1."""

    line: int
    keyword: str
    text: str


@dataclass(frozen=True)
class Argument:
    """An ARG: its name, its default (None without one), its line."""

    name: str
    default: str | None
    line: int


@dataclass
class Stage:
    """What one FROM opens: its name, what it starts from, its ARGs, what it reads and whom it copies from."""

    name: str
    base: str
    line: int
    arguments: dict[str, Argument] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Dockerfile:
    """The global ARGs (before the first FROM), which variables the FROM lines read, and the stages in order."""

    arguments: Mapping[str, Argument]
    reads: Mapping[str, int]
    stages: tuple[Stage, ...]

    def external(self) -> dict[str, int]:
        """Names that a FROM, COPY or mount takes from outside the file, with the first line that does."""
        names: dict[str, int] = {}
        known: set[str] = {"scratch"}
        for index, stage in enumerate(self.stages):
            for name, line in {stage.base: stage.line, **stage.sources}.items():
                if name not in known:
                    names.setdefault(name, line)
            known |= {stage.name, str(index)}
        return names

    def parents(self, stage: Stage) -> Iterator[Stage]:
        """The stages that `stage` starts from, nearest first; it inherits their ARGs."""
        earlier = {other.name: other for other in self.stages[: self.stages.index(stage)]}
        while stage.base in earlier:
            stage = earlier[stage.base]
            yield stage


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile. What BuildKit would refuse is left for BuildKit to refuse."""
    arguments: dict[str, Argument] = {}
    reads: dict[str, int] = {}
    stages: list[Stage] = []
    for instruction in instructions(text):
        if instruction.keyword == "FROM":
            for name in variables(instruction.text):
                reads.setdefault(name, instruction.line)
            stages.append(_stage(instruction, len(stages), arguments))
        elif instruction.keyword == "ARG":
            _declare(instruction, stages[-1].arguments if stages else arguments, stages[-1].reads if stages else reads)
        elif stages:
            _use(instruction, stages[-1])
    return Dockerfile(arguments, reads, tuple(stages))


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, without comments."""
    lines = enumerate(text.splitlines(), 1)
    for first, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [line.strip()]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1].rstrip()
            following = next((line for _, line in lines if line.strip() and not line.lstrip().startswith("#")), "")
            parts.append(following.strip())
        joined = " ".join(parts)
        keyword, _, rest = joined.partition(" ")
        body = [rest.strip()]
        if keyword.upper() in ("RUN", "COPY", "ADD"):
            for match in HEREDOC.finditer(rest):
                for _, line in lines:
                    if line.strip() == match.group(2):
                        break
                    body.append(line)
        yield Instruction(first, keyword.upper(), "\n".join(body))


def variables(text: str) -> list[str]:
    """The names that `$NAME` and `${NAME...}` read."""
    return [braced or bare for braced, bare in VARIABLE.findall(text)]


def _stage(instruction: Instruction, index: int, arguments: Mapping[str, Argument]) -> Stage:
    words = [word for word in instruction.text.split() if not word.startswith("--")]
    name = words[2] if len(words) == 3 and words[1].lower() == "as" else str(index)
    base = REFERENCE.sub(lambda match: _default(match, arguments), words[0]) if words else ""
    return Stage(name, base, instruction.line)


def _default(match: re.Match[str], arguments: Mapping[str, Argument]) -> str:
    """What a global ARG puts in the place of `$NAME`; the reference itself where nothing is known."""
    argument = arguments.get(match["braced"] or match["bare"])
    return (argument.default if argument else None) or match["fallback"] or match.group()


def _declare(instruction: Instruction, arguments: dict[str, Argument], reads: dict[str, int]) -> None:
    try:
        words = shlex.split(instruction.text)
    except ValueError:  # an open quote
        words = instruction.text.split()
    for word in words:
        name, equals, default = word.partition("=")
        arguments[name] = Argument(name, default if equals else None, instruction.line)
        for read in variables(default):
            reads.setdefault(read, instruction.line)


def _use(instruction: Instruction, stage: Stage) -> None:
    for name in variables(instruction.text):
        stage.reads.setdefault(name, instruction.line)
    for word in instruction.text.split():
        if not word.startswith("--"):
            break
        option, _, value = word.partition("=")
        if option == "--from":
            stage.sources.setdefault(value, instruction.line)
        elif option == "--mount" and (match := MOUNT_FROM.search(value)):
            stage.sources.setdefault(match.group(1), instruction.line)


def without_secrets(text: str, known: Collection[str]) -> str:
    """The Dockerfile without the mounts of secrets that are not among `known`; every line keeps its number."""
    return SECRET.sub(lambda mount: mount[0] if mount[1] in known else "", text)
