"""Makes the docker-bake file of a plan and of the host's inputs: one bake target for each target. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlc.core import labels
from dlc.plan.contexts import Context, Image, TargetRef
from dlc.plan.plan import Plan
from dlc.plan.targets import Target

# In a word of a cache.
IMAGE_WORD = "{image}"


@dataclass(frozen=True)
class HostInputs:
    """`contexts`: the folder of each context of the plan that is a folder.

    `dockerfiles`: a Dockerfile's path in the repository -> the file to build from.
    `proxies`: build arguments such as HTTPS_PROXY.
    `secrets`: id -> where BuildKit reads it, as bake writes it: `src=/path/of/file` or `env=NAME`.
    All paths are absolute.
    """

    contexts: Mapping[Context, Path] = field(default_factory=dict)
    dockerfiles: Mapping[str, Path] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Caches:
    """Where finished steps are looked for and written to: words of buildx, in which `{image}` stands for an image."""

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


NO_CACHES = Caches()


def render(
    plan: Plan, inputs: HostInputs, *, output: str, epoch: int, revision: str, caches: Caches = NO_CACHES
) -> dict[str, object]:
    """Return the bake file as a value for JSON.

    `output` is a BuildKit exporter such as `type=docker` and goes to the selected images only: parents are built
    through `target:` links and leave no image (`run.BUILDX`). `epoch` is SOURCE_DATE_EPOCH in seconds,
    `revision` the commit.
    """
    stamps = {labels.CREATED: labels.format_time(epoch), labels.REVISION: revision}
    targets: dict[str, object] = {}
    for target in plan.targets:
        entry = _target_entry(target, inputs, epoch)
        if caches.sources:
            # Every target, because each is looked for by itself.
            entry["cache-from"] = _fill_images(caches.sources, plan.selected)
        if target.id in plan.selected:
            entry["labels"] = {**target.labels, **stamps}
            entry["tags"] = list(target.tags)
            entry["output"] = [output]
            if caches.targets:
                entry["cache-to"] = _fill_images(caches.targets, [target.id])
        targets[bake_name(target.id)] = entry
    return {"group": {"default": {"targets": [bake_name(name) for name in plan.selected]}}, "target": targets}


def _fill_images(words: Sequence[str], images: Sequence[str]) -> list[str]:
    """Return the words for these images, each once."""
    return list(dict.fromkeys(word.replace(IMAGE_WORD, image) for word in words for image in images))


def bake_name(identifier: str) -> str:
    """Return a target's name for bake, which may hold neither dots nor slashes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", identifier)


def _target_entry(target: Target, inputs: HostInputs, epoch: int) -> dict[str, object]:
    entry: dict[str, Any] = {
        "context": _context_address(target.context, inputs),
        "contexts": {name: _context_address(value, inputs) for name, value in target.contexts.items()},
        "args": {**target.args, "SOURCE_DATE_EPOCH": str(epoch), **inputs.proxies},
        "labels": dict(target.labels),
        "platforms": [target.platform],
    }
    if target.inline:
        # Bake would take these for its own variables.
        entry["dockerfile-inline"] = target.dockerfile.replace("${", "$${").replace("%{", "%%{")
    else:
        entry["dockerfile"] = str(inputs.dockerfiles[target.dockerfile])
        entry["secret"] = [f"id={name},{source}" for name, source in sorted(inputs.secrets.items())]
    if target.stage:
        entry["target"] = target.stage
    if target.tags:
        # It is the content key, so it cannot also be hashed into it. A job's hosts compare it inside the image.
        entry["args"] = {**entry["args"], "DLC_CONTENT_KEY": target.key}
    return entry


def _context_address(context: Context, inputs: HostInputs) -> str:
    if isinstance(context, TargetRef):
        return f"target:{bake_name(context.id)}"
    if isinstance(context, Image):
        pinned = context.digest and not context.local
        return f"docker-image://{context.reference}" + (f"@{context.digest}" if pinned else "")
    return str(inputs.contexts[context])
