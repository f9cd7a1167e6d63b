"""Which image the tag of a base image means now. A tag can move, so its digest goes into the content key."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence

from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.errors import BaseImageError
from dlc.core.process import tail
from dlc.engine.connection import Engine
from dlc.engine.questions import ask
from dlc.plan.contexts import Image
from dlc.plan.plan import Plan, plan_of

PAUSES = (1.0, 5.0)  # seconds before a registry is asked again
# What the client says of a registry or a network that may answer in a moment.
PASSING = re.compile(
    r"(?i)deadline ?exceeded|time(?:d )?out|connection reset|\bEOF\b|temporary failure|server misbehaving"
    r"|too many requests|(?:status|code).* 5\d\d\b"
)


def plan_with_digests(variants: Sequence[Variant], tree: Tree, engine: Engine) -> Plan:
    """The plan for these images, with the digests of their base images in its content keys.

    Raises BaseImageError for a base image that does not exist, and LockError as `plan_of` does.
    """
    plan = plan_of(variants, tree)
    found = resolve(plan, engine)
    return plan_of(variants, tree, images=found) if found else plan


def resolve(plan: Plan, engine: Engine) -> dict[str, Image]:
    """Reference -> the image it means now, for each base image that the plan names by a tag.

    An image that the engine has is taken, as a build would take it; the registry is asked for the others. Raises
    BaseImageError where neither has it.
    """
    contexts = {context for target in plan.targets for context in target.contexts.values()}
    named = [context.reference for context in contexts if isinstance(context, Image) and not context.digest]
    return {reference: _found(reference, engine) for reference in sorted(named) if "@" not in reference}


def _found(reference: str, engine: Engine) -> Image:
    here = ask(engine, "image", "inspect", "--format", "{{.Id}}", reference)
    if here.returncode == 0:
        return Image(reference, here.stdout.strip(), local=True)
    words = ("buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", reference)
    there = engine.docker(*words, check=False)
    for pause in PAUSES:
        if there.returncode == 0 or not PASSING.search(there.stderr):
            break
        said = tail(there.stderr, 1)
        print(f"dlc: base image {reference}: {said}; asked again in {pause:g} s", file=sys.stderr, flush=True)
        time.sleep(pause)
        there = engine.docker(*words, check=False)
    if there.returncode == 0:
        return Image(reference, there.stdout.strip())
    raise BaseImageError(
        f"base image {reference}: expected it on the engine or in its registry, found: {there.stderr.strip()}",
        "check base.image: docker pull shows whether it exists",
    )
