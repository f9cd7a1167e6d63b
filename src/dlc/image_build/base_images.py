"""Finds the image that the tag of a base image means now: a tag can move, so its digest goes into the content key."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence

from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.errors import BaseImageError
from dlc.core.process import last_lines
from dlc.engine.builders import NO_ENGINE
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ask_engine
from dlc.plan.contexts import Image
from dlc.plan.plan import Plan, plan_variants

# Before a registry is asked again.
PAUSES_SECONDS = (1.0, 5.0)
# What the client says of a registry or a network that may answer in a moment.
PASSING = re.compile(
    r"(?i)deadline ?exceeded|time(?:d )?out|connection reset|\bEOF\b|temporary failure|server misbehaving"
    r"|too many requests|(?:status|code).* 5\d\d\b"
)


def plan_with_digests(variants: Sequence[Variant], tree: Tree, engine: Engine) -> Plan:
    """Make the plan for these images, with the digests of their base images in its content keys.

    Raises BaseImageError for a base image that does not exist, and LockError as `plan_variants` does.
    """
    plan = plan_variants(variants, tree)
    found = resolve_base_images(plan, engine)
    return plan_variants(variants, tree, images=found) if found else plan


def resolve_base_images(plan: Plan, engine: Engine) -> dict[str, Image]:
    """Map each base image that the plan names by a tag to the image that the tag means now.

    An image that the engine has is taken, as a build would take it; the registry is asked for the others, and for all
    if a builder builds, which has no images. Raises BaseImageError if neither has it.
    """
    contexts = {context for target in plan.targets for context in target.contexts.values()}
    named = [context.reference for context in contexts if isinstance(context, Image) and not context.digest]
    return {reference: _find_image(reference, engine) for reference in sorted(named) if "@" not in reference}


def _find_image(reference: str, engine: Engine) -> Image:
    if engine.origin != NO_ENGINE:
        here = ask_engine(engine, "image", "inspect", "--format", "{{.Id}}", reference)
        if here.returncode == 0:
            return Image(reference, here.stdout.strip(), local=True)
    words = ("buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", reference)
    there = engine.docker(*words, check=False)
    for pause in PAUSES_SECONDS:
        if there.returncode == 0 or not PASSING.search(there.stderr):
            break
        said = last_lines(there.stderr, 1)
        print(f"dlc: base image {reference}: {said}; asked again in {pause:g} s", file=sys.stderr, flush=True)
        time.sleep(pause)
        there = engine.docker(*words, check=False)
    if there.returncode == 0:
        return Image(reference, there.stdout.strip())
    raise BaseImageError(
        f"base image {reference}: expected it on the engine or in its registry, found: {there.stderr.strip()}",
        "check base.image: docker pull shows whether it exists",
    )
