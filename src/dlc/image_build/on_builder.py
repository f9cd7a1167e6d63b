"""Builds a plan on a builder that pushes the images itself: nothing of them comes to this host."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.core.atomic_files import scratch_folder
from dlc.core.errors import BuildError, UsageError
from dlc.engine.builders import UNVERIFIED, Builder, make_client
from dlc.image_build import bake_file
from dlc.image_build.bake_file import IMAGE_WORD, NO_CACHES, Caches, HostInputs, bake_name
from dlc.image_build.buildkit_log import Step
from dlc.image_build.buildx import OnRunning, name_builder, run_bake
from dlc.plan.plan import Plan

# As a push from an engine compresses them, whatever compression a cache has.
PUSHED_OUTPUT = "type=image,push=true,oci-mediatypes=true,compression=gzip,force-compression=true"
DIGEST = "containerimage.digest"
CACHE_KINDS = ("registry", "gha", "s3", "local", "inline")


@dataclass(frozen=True)
class Place:
    """Where an image goes: `registry.example/team/pytorch`, and the tag with its content key."""

    repository: str
    tag: str

    def describe_output(self, builder: Builder) -> str:
        """Return BuildKit's exporter for it."""
        if builder.is_engine:
            return f"{PUSHED_OUTPUT},name={self.repository}:{self.tag}{UNVERIFIED}"
        return f"{PUSHED_OUTPUT},name={self.repository},push-by-digest=true"


def make_caches(sources: Sequence[str], targets: Sequence[str], images: Sequence[str]) -> Caches:
    """Return the caches that the user names, for these images. Raises UsageError for words that buildx cannot take."""
    for option, words in (("--cache-from", sources), ("--cache-to", targets)):
        for word in words:
            kinds = [part.removeprefix("type=") for part in word.split(",") if part.startswith("type=")]
            if len(kinds) != 1 or kinds[0] not in CACHE_KINDS:
                raise UsageError(
                    f"{option} {word}: expected type={'|'.join(CACHE_KINDS)} and its options, found other text",
                    f"{option} type=registry,ref=registry.example/cache/dlc:{IMAGE_WORD}",
                )
    shared = [word for word in targets if IMAGE_WORD not in word and "type=inline" not in word]
    if shared and len(images) > 1:
        raise UsageError(
            f"--cache-to {shared[0]}: expected {IMAGE_WORD} in it, for each of {len(images)} images, found none: "
            "each would write over the one before",
            f"--cache-to type=registry,ref=registry.example/cache/dlc:{IMAGE_WORD}",
        )
    return Caches(tuple(sources), tuple(targets))


def render(
    plan: Plan, inputs: HostInputs, builder: Builder, places: Mapping[str, Place], *, epoch: int, revision: str,
    caches: Caches = NO_CACHES,
) -> dict[str, Any]:  # fmt: skip
    """Return the bake file for a builder that pushes, as a value for JSON. Pure. `places`: by image."""
    content: dict[str, Any] = bake_file.render(
        plan, inputs, output="", epoch=epoch, revision=revision, caches=caches
    )  # fmt: skip
    for image, place in places.items():
        entry = content["target"][bake_name(image)]
        # Its tags would be pushed as they are.
        del entry["tags"]
        entry["output"] = [place.describe_output(builder)]
    return content


def build_and_push(
    plan: Plan,
    builder: Builder,
    inputs: HostInputs,
    places: Mapping[str, Place],
    log: Path,
    *,
    epoch: int,
    revision: str,
    caches: Caches = NO_CACHES,
    on_step: Callable[[Step], None] = lambda _: None,
    on_running: OnRunning = lambda _: None,
) -> dict[str, str]:
    """Build the images of a plan and push them; return their digests. No tag that anybody reads has moved then.

    Raises BuildError, and what `error_of` finds in the log.
    """
    content = render(plan, inputs, builder, places, epoch=epoch, revision=revision, caches=caches)
    with scratch_folder("dlc-metadata-") as folder:
        path = folder / "metadata.json"
        words = (*name_builder(builder.name), "--metadata-file", str(path))
        run_bake(json.dumps(content, indent=1), make_client(builder), log, on_step, on_running, words)
        said = path.read_text() if path.exists() else ""
    return {image: read_digest(said, image) for image in plan.selected}


def read_digest(said: str, image: str) -> str:
    """Return the digest of an image in what buildx writes about a bake. Raises BuildError if it has none."""
    try:
        return str(json.loads(said)[bake_name(image)][DIGEST])
    except (ValueError, KeyError, TypeError):
        raise BuildError(
            f"{image}: expected docker buildx to write its digest, found none", "docker buildx version: 0.13 or newer"
        ) from None
