"""`dlc verify-reproducible`: builds images twice without any cache; compares them bit for bit, and the built image.

With --against it builds once, and compares with an image that another builder has pushed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_globs, add_json, add_set, print_json, print_text
from dlc.cli.shared.verify_pushed import open_reference
from dlc.core import labels
from dlc.core.checkout import Tree, find_workspace, read_workspace
from dlc.core.environment import cache_folder
from dlc.core.errors import ImageError, RegistryError, UsageError
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine
from dlc.image_build import base_images, buildx
from dlc.image_build.buildkit_log import Step
from dlc.image_build.buildx import new_log
from dlc.inspection import facts, reproducible
from dlc.inspection.archive import Archive
from dlc.plan.plan import Plan, plan_variants
from dlc.plan.targets import Target
from dlc.proof.evidence import list_images
from dlc.registry import read_image

HELP = "build images twice without any cache and compare them, also with the image that is built"
EXAMPLE = "dlc verify-reproducible 'pytorch-*-cpu-*'"

# So many differences of a layer are shown.
SHOWN = 40


@dataclass(frozen=True)
class Pushed:
    """An image in a registry, as far as it is compared."""

    # With its registry and its digest.
    reference: str
    config: dict[str, Any]
    config_digest: str

    @property
    def key(self) -> str:
        """Return its content key; empty if dlc did not build it."""
        return str(self.config["config"]["Labels"].get(labels.KEY, ""))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --once, --against, --set, --json."""
    add_globs(parser, at_least_one=True)
    parser.add_argument("--once", action="store_true", help="use the engine's build cache for one of the two builds")
    parser.add_argument(
        "--against", metavar="REGISTRY/REPO:TAG",
        help="build once, and compare with this image, which another builder has pushed; of one image",
    )  # fmt: skip
    add_set(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Verify one image after the other; raise ImageError at the end if any differs."""
    workspace = find_workspace()
    tree, root = read_workspace(workspace), workspace.root
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    # Before an engine is started: a stale lock ends the run here.
    plan_variants(variants, tree, args.globs, args.sets)
    if args.against is not None and (args.once or len(variants) != 1):
        raise UsageError(
            f"--against {args.against}: expected one image and no --once, found {len(variants)} images",
            "dlc verify-reproducible ID --against REGISTRY/REPO:TAG",
        )
    others = None if args.against is None else read_pushed(args.against)
    revision, epoch = buildx.read_revision(root)
    engine = connect()
    engine.require_buildkit()
    rows: list[dict[str, object]] = []
    for variant in variants:
        plan = base_images.plan_with_digests([variant], tree, engine)
        pushed = None if others is None else choose_pushed(others, plan.target(variant.id))
        # First with the cache of earlier builds: a build from nothing leaves its own steps there.
        archives = [
            _build_archive(plan, engine, tree, epoch, revision, cached=cached)
            for cached in ((False,) if pushed else (args.once, False))
        ]
        if pushed:
            found = reproducible.compare_with_pushed(archives[0], pushed.config)
        else:
            found = reproducible.find_differences(*archives) or _compare_with_built(plan, engine, archives[0])
        if not args.json:
            print_text(as_text(variant.id, archives[0], found))
        rows.append({
            "id": variant.id,
            "day": date.today().isoformat(),
            "digests": [archive.digest for archive in archives],
            "identical": not found,
            "differences": [asdict(difference) for difference in found],
            **({"against": pushed.reference, "config": pushed.config_digest} if pushed else {}),
        })  # fmt: skip
    if args.json:
        print_json(rows)
    if differing := [str(row["id"]) for row in rows if not row["identical"]]:
        raise ImageError(
            f"{', '.join(differing)}: expected the same bytes from both builds, found others",
            "change the steps above: they must write no times, no random numbers, and files in a fixed order",
        )
    return 0


def read_pushed(word: str) -> list[Pushed]:
    """Read the image of a reference, or those of all platforms. Raises RegistryError for what is no image."""
    place = open_reference(word)
    repository = place.repository
    found = []
    for name in list_images(repository, place.registry, place.name):
        image = read_image.find_image(repository, name)
        where = f"{place.registry}/{repository.name}@{image.digest}"
        config = _parse_config(where, read_image.read_config(repository, image))
        found.append(Pushed(where, config, str(image.content["config"]["digest"])))
    return found


def _parse_config(where: str, data: bytes) -> dict[str, Any]:
    try:
        config = json.loads(data)
        if isinstance(config["rootfs"]["diff_ids"], list) and isinstance(config["config"]["Labels"], dict):
            return dict(config)
    except (ValueError, TypeError, LookupError, RecursionError):
        # What is no configuration is told below.
        pass
    raise RegistryError(f"{where}: expected the configuration of an image of dlc, found other bytes")


def choose_pushed(others: Sequence[Pushed], target: Target) -> Pushed:
    """Return the image of these sources. Raises ImageError if there is none: other sources make other bytes."""
    for pushed in others:
        if pushed.key == target.key:
            return pushed
    said = ", ".join(f"{pushed.reference} of {pushed.key[:12] or 'no content key'}" for pushed in others)
    raise ImageError(
        f"{target.id}: expected an image with the content key of these sources, {target.key[:12]}, found {said}",
        "check out the commit that it was built from: dlc verify says which one",
    )


def _build_archive(plan: Plan, engine: Engine, tree: Tree, epoch: int, revision: str, *, cached: bool) -> Archive:
    start = time.monotonic()
    log = new_log(cache_folder(), "rebuild")
    archive = reproducible.build_from_nothing(
        plan, engine, tree, log, epoch=epoch, revision=revision, cached=cached, on_step=_print_result
    )  # fmt: skip
    how = "with cached steps" if cached else "without cache"
    print(f"  {plan.selected[0]} built {how} in {time.monotonic() - start:.0f} s: {archive.digest}", file=sys.stderr)
    return archive


def _compare_with_built(plan: Plan, engine: Engine, archive: Archive) -> tuple[reproducible.Difference, ...]:
    """Compare with the image that `dlc build` left in the engine, if it is of these sources."""
    [target] = [plan.target(identifier) for identifier in plan.selected]
    ref = target.tags[0]
    if images.find_keys(engine, [ref]).get(ref) != target.key:
        print(f"  {ref} is not built from these sources: only the two builds are compared", file=sys.stderr)
        return ()
    return reproducible.compare_with_built(archive, facts.inspect_image(engine, ref)["RootFS"]["Layers"])


def _print_result(step: Step) -> None:
    if not step.cached and step.seconds >= 1:
        print(f"  {step.seconds:6.1f} s  {step.name}", file=sys.stderr, flush=True)


def as_text(identifier: str, archive: Archive, found: tuple[reproducible.Difference, ...]) -> str:
    """Return `identical` with the digest, or the differences by layer and path."""
    if not found:
        return f"{identifier}  identical  {archive.digest}"
    lines = [f"{identifier}  {len(found)} differences"]
    for (layer, command), differences in reproducible.group_by_layer(found).items():
        lines.append(f"  layer {layer + 1}  {command[:100]}" if layer >= 0 else "  configuration")
        lines += [f"    {'/' * (layer >= 0)}{item.path}  {item.what}" for item in differences[:SHOWN]]
        lines += [f"    and {len(differences) - SHOWN} more"] if len(differences) > SHOWN else []
    return "\n".join(lines)
