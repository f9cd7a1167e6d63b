"""Asks an engine about images and removes what a rebuild left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from dlc.core.labels import KEY
from dlc.core.process import run
from dlc.engine.connection import Engine


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
    form = '{{range .RepoTags}}{{.}} {{end}}|{{index .Config.Labels "' + KEY + '"}}'
    done = run(["docker", "image", "inspect", "--format", form, *wanted], env=engine.environment, check=False)
    rows = [line.rpartition("|") for line in done.stdout.splitlines()]
    return {tag: key for tags, _, key in rows if key for tag in tags.split() if tag in wanted}


def size(engine: Engine, ref: str) -> int:
    """Bytes of all layers, unpacked."""
    done = run(["docker", "history", "--human=false", "--format", "{{.Size}}", ref], env=engine.environment)
    return sum(int(line) for line in done.stdout.split())


def remove_dangling(engine: Engine) -> None:
    """Remove images of ours that a rebuild took the name from; never one of another's."""
    argv = ["docker", "image", "prune", "--force", "--filter", f"label={KEY}"]
    run(argv, env=engine.environment, check=False)


def _image(engine: Engine, ref: str, entry: dict[str, object]) -> Image:
    config = entry.get("Config")
    labels = (config.get("Labels") if isinstance(config, dict) else None) or {}
    return Image(ref, str(entry["Id"]), labels.get(KEY, ""), str(entry["Created"]), size(engine, ref))
