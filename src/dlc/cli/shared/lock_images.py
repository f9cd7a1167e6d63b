"""The locks of images, written by `dlc lock`, and by `dlc build` for a project that has none yet."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import dlc
from dlc.buildspec.lockfile import join_entries, locked_versions, parse_entries
from dlc.buildspec.locks import direct, resolve
from dlc.buildspec.locks.os_packages import require_os_packages
from dlc.buildspec.locks.own_lock import make_own_lock
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.shared.arguments import say_progress, show_work
from dlc.core.atomic_files import report_disk_errors
from dlc.core.checkout import INSTALLED, Tree, Workspace, files_below, find_root, read_workspace
from dlc.core.environment import cache_folder
from dlc.core.errors import UsageError
from dlc.plan.own_image import explain_layers

# Changes of a lock that are shown.
SHOWN = 40


def find_home(variant: Variant, workspace: Workspace) -> Path:
    """Return the folder that the image's lock folder is in: the project's, or that of the recipes.

    Raises UsageError for a released image outside a checkout: its lock is part of the release.
    """
    if variant.base and workspace.project:
        return workspace.project
    if workspace.recipes == INSTALLED:
        raise UsageError(
            f"{variant.id}: the lock of a released image belongs to dlc {dlc.__version__}, and is not written",
            "for other packages make a project: `dlc init`, packages in its dlc.yml, and `dlc lock` there",
        )
    return find_root()


def write_lock(variant: Variant, tree: Tree, home: Path) -> str:
    """Resolve and write the lock of one image; return the lines that say what changed.

    With --set, and on top of a released image, only what is asked for is to differ, not what indexes have newer since.
    """
    with show_work(variant.id, "lock"):
        below = _find_below(variant)
        asked = resolve.make_request(variant, join_entries(tree, below) if below else "")
        with direct.with_wheels(asked) as (request, wheels):
            texts, notes = _resolve(request, variant, tree)
            with report_disk_errors(home, ""):
                direct.keep_wheels(wheels, home, variant)
                resolve.store_lock(texts, home / variant.lock_folder)
                direct.drop_unused(home)
    new = {name: version for text in texts.values() for name, version in parse_entries(text)}
    released = locked_versions(tree, below) if below else {}
    return "\n".join([describe_change(variant, locked_versions(tree, variant), released, new), *notes])


def lock_new_project(
    variants: Sequence[Variant], tree: Tree, workspace: Workspace, args: argparse.Namespace
) -> tuple[Tree, Sequence[Variant]]:
    """Write the lock of a project that has none yet; return the tree and the images with it.

    Debian packages that do not exist are an error before that.

    A stale lock is an error of the plan: versions change if somebody asks for that.
    """
    require_os_packages(variants, tree, cache_folder())
    new = [each for each in variants if each.base and not each.plain and not files_below(tree, each.lock_folder)]
    if not new:
        return tree, variants
    for variant in new:
        say_progress(write_lock(variant, tree, find_home(variant, workspace)))
    tree = read_workspace(workspace)
    return tree, load_variants(tree, args.globs, args.sets, args.platform)


def describe_change(
    variant: Variant, before: Mapping[str, str], released: Mapping[str, str], new: Mapping[str, str]
) -> str:
    """Return what is new in a lock against the one before, else against the lock of the image below. Pure."""
    head = f"{variant.lock_folder}: {len(new)} packages"
    old = before or released
    if not old:
        return head
    against = "the lock before" if before else "the image below"
    gone = sorted(old.keys() - new.keys())
    lines = [f"  + {name} {new[name]}" for name in sorted(new.keys() - old.keys())]
    lines += [f"  ~ {name} {old[name]} -> {new[name]}" for name in sorted(new) if old.get(name, new[name]) != new[name]]
    lines += [f"  - {name} {old[name]}" for name in gone]
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    changes = "1 change" if len(lines) == 1 else f"{len(lines) or 'no'} changes"
    return "\n".join([f"{head}; {changes} against {against}", *lines[:SHOWN], *more])


def _find_below(variant: Variant) -> Variant | None:
    """Return the image whose versions a lock keeps: the one before --set, or the released one of a project."""
    return variant.plain if variant.plain and variant.plain.lock_folder != variant.lock_folder else variant.base


def _resolve(request: resolve.LockRequest, variant: Variant, tree: Tree) -> tuple[Mapping[str, str], list[str]]:
    """Return the files of an image's lock, and what a project's user should know of it."""
    if variant.base:
        own = make_own_lock(request, variant, variant.base, tree)
        return own.texts, explain_layers(own.changed, variant.base)
    return resolve.make_lock(request), []
