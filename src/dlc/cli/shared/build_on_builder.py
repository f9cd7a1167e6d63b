"""Builds on a builder of docker buildx for `dlc build --builder` and `--push`, and moves tags when all is verified."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from dlc.buildspec.matrix import list_frameworks, load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.shared.arguments import print_json, say_progress, warn_of_end, warn_of_other_tool
from dlc.cli.shared.lock_images import lock_new_project
from dlc.cli.shared.push_families import find_families, put_foreign_first
from dlc.core import environment, labels
from dlc.core.atomic_files import report_disk_errors
from dlc.core.checkout import Tree, find_workspace, read_workspace
from dlc.core.errors import UsageError
from dlc.engine.builders import Builder, find_builder, make_client
from dlc.engine.pushed import Record, write_record
from dlc.image_build import base_images, host_inputs, on_builder
from dlc.image_build.bake_file import NO_CACHES, Caches
from dlc.image_build.buildx import new_log, read_revision, warn_undated
from dlc.image_build.on_builder import Place, make_caches
from dlc.image_build.one_dockerfile import join_targets
from dlc.image_build.progress_display import open_display
from dlc.plan.plan import Plan, plan_variants
from dlc.registry.client.destination import Destination, open_destination
from dlc.registry.client.repository import Repository
from dlc.registry.platform_index import Family, move_tags, put_index
from dlc.registry.tag_age import Claim, Newer, make_claim, require_no_newer
from dlc.registry.tags import make_tags
from dlc.registry.verify import find_planned, verify_planned


@dataclass(frozen=True)
class Result:
    """One image in a registry. `built`: it was not there before."""

    id: str
    repository: str
    digest: str
    tags: tuple[str, ...]
    built: bool
    # Tags that were left, because they mean an image of a newer commit.
    newer: tuple[Newer, ...] = ()


@dataclass(frozen=True)
class Goal:
    """Where an image goes, and which tags it gets there."""

    repository: Repository
    # With its registry.
    name: str
    tags: tuple[str, ...]


def choose_engine(args: argparse.Namespace) -> None:
    """Take the engine that a builder is the BuildKit of; leave any other builder to build for the engine of this host.

    Raises EngineError for a builder that is not there.
    """
    builder = find_builder(args.builder)
    builder.require_platform(args.platform)
    if builder.is_engine:
        os.environ.pop("DOCKER_HOST", None)
        os.environ["DOCKER_CONTEXT"] = builder.name
        args.builder = None


def build_and_push(args: argparse.Namespace) -> int:
    """Plan, skip what the registry has, let the builder build and push the rest, verify it, move the tags, report."""
    if not args.builder:
        raise UsageError(
            "dlc build --push: expected --builder NAME, found none",
            "an engine's images: dlc push GLOB --to REGISTRY/REPO",
        )
    workspace = find_workspace()
    tree = read_workspace(workspace)
    tree, variants = lock_new_project(load_variants(tree, args.globs, args.sets, args.platform), tree, workspace, args)
    # A stale lock ends the run before a builder is started.
    plan_variants(variants, tree, args.globs, args.sets)
    warn_of_end(variants)
    warn_of_other_tool(tree)
    ca = environment.find_ca_bundle(os.environ)
    place = open_destination(args.push, ca, list_frameworks(tree), option="--push")
    caches = make_caches(args.cache_from, args.cache_to, [variant.id for variant in variants])
    builder = find_builder(args.builder)
    for platform in sorted({variant.settings.platform for variant in variants}):
        builder.require_platform(platform)
    plan = base_images.plan_with_digests(variants, tree, make_client())
    revision, epoch = read_revision(workspace.root)
    warn_undated(workspace.root, revision, epoch)
    goals = _make_goals(plan, variants, place, epoch)
    there = _find_there(plan, goals)
    rest = plan.without(list(there))
    if args.dry_run:
        return _report([_describe(goals, image, there.get(image, "")) for image in plan.selected], args, is_done=False)
    if rest.selected:
        places = {image: Place(goals[image].name, goals[image].tags[0]) for image in rest.selected}
        for goal in {goals[image].name: goals[image] for image in rest.selected}.values():
            goal.repository.require_writable()
        sizes = {variant.id: variant.settings.budget.bytes for variant in variants}
        for image in rest.selected:
            say_progress(f"builds {image}: not in {goals[image].name} yet; at most {sizes[image] / 1e6:.0f} MB")
        there |= _run(rest, builder, tree, places, caches, epoch, revision, plain=args.json)
    created = dict.fromkeys(plan.selected, labels.format_time(epoch))
    families = find_families(variants, tree, args.sets, make_client(), created)
    claims = {image: make_claim(plan.target(image).labels, epoch, back=args.back) for image in plan.selected}
    newer = _publish(plan, goals, there, families, claims)
    found = [
        _describe(goals, image, there[image], built=image in rest.selected, newer=newer[image])
        for image in plan.selected
    ]
    _report(found, args, is_done=True)
    for each in found:
        require_no_newer(each.repository, each.newer, claims[each.id])
    return 0


def _make_goals(plan: Plan, variants: Sequence[Variant], place: Destination, epoch: int) -> dict[str, Goal]:
    created = labels.format_time(epoch)
    found = {}
    for variant in variants:
        framework = variant.header.framework
        tags = make_tags(variant.ref, {**plan.target(variant.id).labels, labels.CREATED: created})
        found[variant.id] = Goal(place.repository(framework, say_progress), place.reference(framework), tags)
    return found


def _find_there(plan: Plan, goals: Mapping[str, Goal]) -> dict[str, str]:
    """Return the digests of the images that the registry has under their content tag."""
    found = {}
    for image, goal in goals.items():
        if there := find_planned(goal.repository, goal.tags[0], plan.target(image)):
            found[image] = there.digest
    return found


def _run(
    plan: Plan, builder: Builder, tree: Tree, places: Mapping[str, Place], caches: Caches, epoch: int,
    revision: str, *, plain: bool,
) -> dict[str, str]:  # fmt: skip
    """Build what is missing; return the digests."""
    cache = environment.cache_folder()
    if caches != NO_CACHES:
        plan, tree = join_targets(plan, tree)
    with open_display(plain=plain, stream=sys.stderr, environment=os.environ) as display:
        with display.during("this host", "base file system, locked wheels, downloads"), report_disk_errors(cache):
            inputs = host_inputs.collect(plan, tree, cache)
        return on_builder.build_and_push(
            plan, builder, inputs, places, new_log(cache, "build"), epoch=epoch, revision=revision, caches=caches,
            on_step=display.finished, on_running=display.running,
        )  # fmt: skip


def _publish(
    plan: Plan, goals: Mapping[str, Goal], digests: Mapping[str, str], families: Mapping[str, Family],
    claims: Mapping[str, Claim],
) -> dict[str, tuple[Newer, ...]]:  # fmt: skip
    """Verify every image, then move the tags of all: one that is wrong leaves all tags where they are.

    Return for each image the tags that were left, because they mean a newer one.
    """
    found = {}
    images = {
        image: verify_planned(goals[image].repository, digest, plan.target(image)) for image, digest in digests.items()
    }
    for image in sorted(images, key=put_foreign_first) if families else images:
        goal, target, manifest = goals[image], plan.target(image), images[image]
        index = put_index(goal.repository, image, manifest, families.get(image))
        _, found[image] = move_tags(goal.repository, manifest, goal.tags, index, say_progress, claims[image])
        write_record(Record(target.tags[0], f"{goal.name}@{manifest.digest}", target.key))
    return found


def _describe(
    goals: Mapping[str, Goal], image: str, digest: str, *, built: bool = False, newer: tuple[Newer, ...] = ()
) -> Result:
    left = {each.tag for each in newer}
    tags = tuple(tag for tag in goals[image].tags if tag not in left)
    return Result(image, goals[image].name, digest, tags, built, newer)


def _report(results: Sequence[Result], args: argparse.Namespace, *, is_done: bool) -> int:
    if args.json:
        print_json([asdict(result) for result in results])
        return 0
    for result in results:
        state = "built" if result.built else "was there already"
        if not is_done:
            state = "is there" if result.digest else "would be built"
        print(f"{result.id}  {state}")
        if result.digest:
            print(f"  {result.repository}@{result.digest}")
        for tag in result.tags:
            print(f"  {result.repository}:{tag}")
    if is_done:
        print(f"next: dlc test {results[-1].id}, which pulls it by its digest")
    return 0
