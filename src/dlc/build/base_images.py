"""Which image a base image's tag means now: a tag moves, so a build asks once, before content keys are made."""

from __future__ import annotations

from dlc.core.errors import BaseImageError
from dlc.engine.connection import Engine
from dlc.plan.contexts import Image
from dlc.plan.plan import Plan


def resolve(plan: Plan, engine: Engine) -> dict[str, Image]:
    """Reference -> the image it means now, for each base image that the plan names by a tag.

    Like the engine, this takes the image that is there already, and asks the registry only for another one. Raises
    BaseImageError where neither has it.
    """
    contexts = {context for target in plan.targets for context in target.contexts.values()}
    named = [context.reference for context in contexts if isinstance(context, Image) and not context.digest]
    return {reference: _found(reference, engine) for reference in sorted(named) if "@" not in reference}


def _found(reference: str, engine: Engine) -> Image:
    here = engine.docker("image", "inspect", "--format", "{{.Id}}", reference, check=False)
    if here.returncode == 0:
        return Image(reference, here.stdout.strip(), local=True)
    there = engine.docker("buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", reference, check=False)
    if there.returncode == 0:
        return Image(reference, there.stdout.strip())
    raise BaseImageError(
        f"base image {reference}: expected it on the engine or in its registry, found: {there.stderr.strip()}",
        "check base.image: docker pull shows whether it exists",
    )
