"""Reads Dockerfiles as stages, renames what stages take from, and puts them into one order. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlc.core.errors import SpecError

FROM = re.compile(r"^FROM (\S+)(?: AS (\S+))?[ \t]*\n", re.MULTILINE)
COMMENT_BELOW = re.compile(r"(?:^#.*\n)*\Z", re.MULTILINE)
COPY_FROM = re.compile(r"(--from=)([A-Za-z0-9][\w.-]*)(?=\s)")
MOUNT = re.compile(r"--mount=(\S+)")
ARGUMENT = re.compile(r"^ARG (\w+)$", re.MULTILINE)
# COPY and ADD of files of the build's own folder.
OWN_FILES = re.compile(r"^(?:COPY|ADD) (?!.*--from=).*", re.MULTILINE)
NOTHING = "scratch"


@dataclass(frozen=True)
class Stage:
    """One stage of a Dockerfile: what it begins from, the comment above it, and its instructions."""

    name: str
    base: str
    comment: str
    body: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the names that it takes from, in their order."""
        mounts = (_read_fields(match[1]).get("from", "") for match in MOUNT.finditer(self.body))
        copies = (match[2] for match in COPY_FROM.finditer(self.body))
        return tuple(dict.fromkeys(name for name in (self.base, *mounts, *copies) if name not in ("", NOTHING)))

    @property
    def text(self) -> str:
        """Return the stage as a Dockerfile has it."""
        return f"{self.comment}FROM {self.base} AS {self.name}\n{self.body}"


def parse_stages(dockerfile: str, unnamed: str = "") -> list[Stage]:
    """Return the stages of a Dockerfile, in their order. One that has no name gets the name `unnamed`."""
    heads = list(FROM.finditer(dockerfile))
    ends = [*(head.start() for head in heads[1:]), len(dockerfile)]
    comment = _find_comment(dockerfile[: heads[0].start()]) if heads else ""
    found = []
    for head, end in zip(heads, ends, strict=True):
        between = dockerfile[head.end() : end]
        below = _find_comment(between) if end < len(dockerfile) else ""
        body = between.removesuffix(below).strip("\n")
        found.append(Stage(head[2] or unnamed, head[1], comment, f"{body}\n" if body else ""))
        comment = below
    return found


def _find_comment(text: str) -> str:
    """Return the comment at the end of a text, which belongs to the stage below it."""
    match = COMMENT_BELOW.search(text)
    return match[0] if match else ""


def list_global_arguments(dockerfile: str) -> list[str]:
    """Return the ARG lines above the first stage, which FROM lines read."""
    head = FROM.search(dockerfile)
    return re.findall(r"^ARG .*$", dockerfile[: head.start() if head else 0], re.MULTILINE)


def rename_sources(stage: Stage, names: Mapping[str, str]) -> Stage:
    """Return the stage taking from the names that `names` has for those in it."""

    def rename_mount(match: re.Match[str]) -> str:
        fields = _read_fields(match[1])
        if "from" in fields:
            fields["from"] = names.get(fields["from"], fields["from"])
        return _write_mount(fields)

    body = COPY_FROM.sub(lambda match: match[1] + names.get(match[2], match[2]), stage.body)
    return replace(stage, base=names.get(stage.base, stage.base), body=MOUNT.sub(rename_mount, body))


def move_own_files(stage: Stage, folder: str, dockerfile: str) -> Stage:
    """Return the stage with its mounts of the build's own folder leading to a folder in it.

    Raises SpecError for a file that is copied from there: the Dockerfiles of images mount what they take.
    """
    if found := OWN_FILES.search(stage.body):
        raise SpecError(
            f"{dockerfile}: stage {stage.name}: expected files to be mounted, or taken --from a stage or a context, "
            f"found {found[0]!r}",
            "take the file from the context `scripts`",
        )

    def move(match: re.Match[str]) -> str:
        fields = _read_fields(match[1])
        if fields.get("type") == "bind" and "from" not in fields:
            fields["source"] = f"{folder}/{fields.get('source', '').lstrip('/')}".rstrip("/")
        return _write_mount(fields)

    return replace(stage, body=MOUNT.sub(move, stage.body))


def _read_fields(words: str) -> dict[str, str]:
    """Return the fields of a mount: `type=bind,source=x` -> {"type": "bind", "source": "x"}."""
    fields = [word.partition("=") for word in words.split(",")]
    return {name: value for name, _, value in fields}


def _write_mount(fields: Mapping[str, str]) -> str:
    return "--mount=" + ",".join(f"{name}={value}" if value else name for name, value in fields.items())


def set_defaults(stage: Stage, values: Mapping[str, str]) -> Stage:
    """Return the stage with these values as the defaults of its arguments."""

    def add_value(match: re.Match[str]) -> str:
        return f"ARG {match[1]}={quote_value(values[match[1]])}" if match[1] in values else match[0]

    return replace(stage, body=ARGUMENT.sub(add_value, stage.body))


def quote_value(value: str) -> str:
    """Return a value as a Dockerfile takes it literally: nothing in it is a variable or ends it.

    Raises SpecError for a line break, which no Dockerfile can hold.
    """
    if "\n" in value:
        raise SpecError(
            f"{value!r}: expected one line, which a Dockerfile can hold, found several", "write it in one line"
        )
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def order_stages(stages: Mapping[str, Stage], last: str) -> list[Stage]:
    """Return the stages that `last` needs, each after those that it takes from, and `last` at the end."""
    found: dict[str, Stage] = {}

    def add(name: str) -> None:
        if name in stages and name not in found:
            for source in stages[name].sources:
                add(source)
            found[name] = stages[name]

    add(last)
    return list(found.values())
