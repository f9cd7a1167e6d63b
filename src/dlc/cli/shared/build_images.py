"""Builds images that are missing or stale for `dlc build`, shows each step, and prints the next command."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.shared.arguments import print_json, warn_of_end, warn_of_other_tool
from dlc.cli.shared.lock_images import lock_new_project
from dlc.core.atomic_files import hold_lock, report_disk_errors
from dlc.core.checkout import Tree, find_workspace, read_workspace
from dlc.core.environment import cache_folder
from dlc.core.platforms import split_suffix
from dlc.core.process import run_beside
from dlc.engine import images
from dlc.engine.connection import connect, must_install
from dlc.engine.docker_client import Engine
from dlc.engine.pushed import forget_records
from dlc.image_build import base_images, buildx, disk_space, host_inputs, last_builds
from dlc.image_build.bake_file import NO_CACHES, Caches, HostInputs
from dlc.image_build.buildx import new_log
from dlc.image_build.on_builder import make_caches
from dlc.image_build.one_dockerfile import join_targets
from dlc.image_build.progress_display import Display, open_display
from dlc.plan.own_image import explain_own_layers
from dlc.plan.plan import Plan, plan_variants

# Longer than a build of all images takes on two cores.
TURN_SECONDS = 4 * 3600.0


def build_with_engine(args: argparse.Namespace, found: Future[Engine | None]) -> int:
    """Plan, skip what is up to date, build the rest on the engine that was found, report."""
    workspace = find_workspace()
    tree = read_workspace(workspace)
    tree, variants = lock_new_project(load_variants(tree, args.globs, args.sets, args.platform), tree, workspace, args)
    # Before an engine is started: a stale lock ends the run here.
    whole = plan_variants(variants, tree, args.globs, args.sets)
    warn_of_end(variants)
    warn_of_other_tool(tree)
    caches = make_caches(args.cache_from, args.cache_to, whole.selected)
    with open_display(plain=args.json, stream=sys.stderr, environment=os.environ) as display, ExitStack() as begun:
        with display.during("Docker engine", "find it, or start one"):
            ahead = begun.enter_context(_collect_ahead(whole, tree)) if must_install(found) else None
            engine = connect(found=found)
        engine.require_buildkit()
        for platform in whole.platforms:
            engine.require_platform(platform)
        plan = base_images.plan_with_digests(variants, tree, engine)
        order = Order(
            engine, workspace.root, tree, args.builder or "", caches, disk_check=not args.no_disk_check, ahead=ahead
        )
        results = _build_missing(plan, variants, order, display)
    forget_records(plan.refs)
    if args.json:
        print_json([asdict(result) for result in results])
    else:
        _print_report(results, engine)
    return 0


@dataclass(frozen=True)
class Order:
    """How images are built: for which engine, from which sources, by which builder if it is not the engine's own."""

    engine: Engine
    root: Path
    tree: Tree
    builder: str
    caches: Caches
    disk_check: bool
    # What this host gives, if it is collected already.
    ahead: Future[HostInputs] | None


def _build_missing(plan: Plan, variants: Sequence[Variant], order: Order, display: Display) -> list[buildx.Result]:
    """Build the selected images that the engine lacks; return what it then has of all of them."""
    engine = order.engine
    remaining, seconds = _drop_current(plan, images.find_keys(engine, plan.all_refs)), 0.0
    if remaining.selected:
        with _wait_for_turn(remaining, engine):
            # Ask again: another dlc may have built them meanwhile.
            existing = images.find_keys(engine, plan.all_refs)
            remaining = _drop_current(remaining, existing)
            if remaining.selected:
                built = [each for each in variants if each.id in remaining.selected]
                for line in explain_own_layers(built, order.tree):
                    display.say(line)
                if not order.builder:
                    # A builder that is no engine has no images.
                    remaining = remaining.begin_from(existing)
                if order.disk_check:
                    _require_room(remaining, variants, existing, engine)
                for line in _announce(remaining, variants, existing):
                    display.say(line)
                seconds = _run_bake(remaining, order, display)
    results = buildx.read_results(plan, engine, seconds, set(remaining.selected))
    _keep_times(results)
    return results


def _announce(plan: Plan, variants: Sequence[Variant], existing: Mapping[str, str]) -> list[str]:
    """Return lines that say what will be built, before it starts."""
    last = {ref: last_builds.read_build(cache_folder(), ref) for ref in plan.refs}
    return last_builds.announce(plan.decisions(existing), variants, last)


def _keep_times(results: Sequence[buildx.Result]) -> None:
    built = [result for result in results if result.built]
    with report_disk_errors(cache_folder()):
        for result in built:
            took = last_builds.LastBuild(result.seconds, len(built), result.size)
            last_builds.record_build(cache_folder(), result.ref, took)


@contextmanager
def _collect_ahead(plan: Plan, tree: Tree) -> Iterator[Future[HostInputs]]:
    """Collect what images take from this host while an engine is installed.

    Without an engine every image is missing.
    """
    cache = cache_folder()
    with report_disk_errors(cache):
        host_inputs.install_programs(plan, cache)
    with run_beside(lambda: _collect_inputs(plan, tree, cache)) as inputs:
        yield inputs


def _collect_inputs(plan: Plan, tree: Tree, cache: Path) -> HostInputs:
    with report_disk_errors(cache):
        return host_inputs.collect(plan, tree, cache)


def _drop_current(plan: Plan, existing: Mapping[str, str]) -> Plan:
    """Return what is left of a plan without the images that are up to date."""
    return plan.without([decision.id for decision in plan.decisions(existing) if not decision.build])


@contextmanager
def _wait_for_turn(plan: Plan, engine: Engine) -> Iterator[None]:
    """Let no other dlc of this user build these images here during the block. Raises ProcessError after TURN_SECONDS.

    Two builds of one image at once mostly share each step. If a step did run in both, the classic store can later write
    the layer above it in another order (docs/decisions/0047): the same files, but another digest.
    """
    folder = cache_folder() / "turns"
    with ExitStack() as held:
        with report_disk_errors(cache_folder()):
            folder.mkdir(parents=True, exist_ok=True)
            # The same order everywhere, so that no two wait for each other.
            for ref in sorted(plan.refs):
                name = hashlib.sha256(f"{engine.address} {ref}".encode()).hexdigest()[:12]
                path = folder / f"{ref.rpartition('/')[2].replace(':', '-')}-{name}"
                held.enter_context(hold_lock(path, TURN_SECONDS))
        yield


def _require_room(plan: Plan, variants: Sequence[Variant], existing: Mapping[str, str], engine: Engine) -> None:
    """Raise DiskError if the engine's disk is too small for what the plan builds."""
    if folder := disk_space.data_folder(engine):
        targets = {target.id for target in plan.targets}
        # A project that begins from an image of the engine takes no room to speak of.
        missing = [
            variant for variant in variants if variant.id in plan.selected
            and (variant.base is None or targets & {f"{variant.id}/framework", variant.base.id})
        ]  # fmt: skip
        disk_space.require_room(
            disk_space.estimate_need(missing, existing, containerd_store=engine.containerd_store), folder
        )


def _run_bake(plan: Plan, order: Order, display: Display) -> float:
    """Build the plan; return the seconds that the bake took."""
    revision, epoch = buildx.read_revision(order.root)
    buildx.warn_undated(order.root, revision, epoch)
    cache = cache_folder()
    tree, ahead = order.tree, order.ahead
    if order.caches != NO_CACHES:
        (plan, tree), ahead = join_targets(plan, tree), None
    with display.during("this host", "base file system, locked wheels, downloads"):
        inputs = ahead.result() if ahead else _collect_inputs(plan, tree, cache)
    return buildx.build_plan(
        plan, order.engine, inputs, new_log(cache, "build"), epoch=epoch, revision=revision,
        on_step=display.finished, on_running=display.running, caches=order.caches, builder=order.builder,
    )  # fmt: skip


def _print_report(results: Sequence[buildx.Result], engine: Engine) -> None:
    for result in results:
        state = f"built in {result.seconds:.0f} s" if result.built else "up to date"
        print(f"{result.ref}  {state}")
        print(f"  digest  {result.digest}")
        print(f"  size    {result.size / 1e9:.2f} GB")
    last = results[-1]
    where = f"DOCKER_HOST={engine.address} " if engine.address else ""
    framework = last.id.partition("-")[0]
    _, platform = split_suffix(last.id)
    option = f"--platform {platform.name} " if platform.suffix else ""
    package = {"pytorch": "torch"}.get(framework, framework)
    print(f"next: {where}docker run --rm {option}{last.ref} {shlex.join(['python', '-c', f'import {package}'])}")
