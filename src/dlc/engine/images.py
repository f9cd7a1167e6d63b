"""Asks an engine about images and removes what a rebuild left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dlc.core.process import run
from dlc.engine.connection import Engine

KEY_LABEL = "org.dlc.content-key"


@dataclass(frozen=True)
class Image:
    """One image as the engine has it."""

    ref: str
    digest: str  # of the manifest where the engine keeps one, else of the configuration
    key: str  # content key it was built from, empty for an image that dlc did not build
    created: str
    size: int  # bytes, sum of its layers unpacked


def find(engine: Engine, refs: Iterable[str]) -> dict[str, Image]:
    """Those of `refs` that the engine has. One call for all of them."""
    wanted = sorted(set(refs))
    if not wanted:
        return {}
    done = run(["docker", "image", "inspect", *wanted], env=engine.environment, check=False)
    found = json.loads(done.stdout or "[]")
    return {tag: _image(engine, tag, entry) for entry in found for tag in entry["RepoTags"] or [] if tag in wanted}


def keys(engine: Engine, refs: Iterable[str]) -> dict[str, str]:
    """Content key of each of `refs` that the engine has and dlc built."""
    wanted = sorted(set(refs))
    form = '{{range .RepoTags}}{{.}} {{end}}|{{index .Config.Labels "' + KEY_LABEL + '"}}'
    done = run(["docker", "image", "inspect", "--format", form, *wanted], env=engine.environment, check=False)
    rows = [line.rpartition("|") for line in done.stdout.splitlines()]
    return {tag: key for tags, _, key in rows if key for tag in tags.split() if tag in wanted}


def size(engine: Engine, ref: str) -> int:
    """Bytes of all layers, unpacked."""
    done = run(["docker", "history", "--human=false", "--format", "{{.Size}}", ref], env=engine.environment)
    return sum(int(line) for line in done.stdout.split())


@contextmanager
def replaced_removed(engine: Engine, refs: Iterable[str]) -> Iterator[None]:
    """After the block, remove the images that `refs` named before it and that have no name now.

    Others without a name stay: another build may be about to use them. So does what a container uses.
    """
    before = _tags(engine, refs)
    try:
        yield
    finally:
        if nameless := [identifier for identifier, tags in _tags(engine, before).items() if not tags]:
            run(["docker", "image", "rm", *nameless], env=engine.environment, check=False)


def _tags(engine: Engine, names: Iterable[str]) -> dict[str, list[str]]:
    """The id of each image that is there, with all its tags."""
    argv = ["docker", "image", "inspect", "--format", "{{.Id}} {{range .RepoTags}}{{.}} {{end}}", *sorted(names)]
    done = run(argv, env=engine.environment, check=False)
    rows = [line.split() for line in done.stdout.splitlines() if line]  # none found is an empty line
    return {identifier: tags for identifier, *tags in rows}


def _image(engine: Engine, ref: str, entry: dict[str, object]) -> Image:
    config = entry.get("Config")
    labels = (config.get("Labels") if isinstance(config, dict) else None) or {}
    return Image(ref, str(entry["Id"]), labels.get(KEY_LABEL, ""), str(entry["Created"]), size(engine, ref))
