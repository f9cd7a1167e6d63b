"""`dlc lock`: resolves the packages of images and writes their locks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dlc.buildspec.lockfile import parse_entries
from dlc.buildspec.locks.os_packages import require_os_packages
from dlc.buildspec.locks.resolve import list_unused_settings
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.tool_pin import TOOL_LOCK, ToolPin, read_named_tool, write_tool_lock
from dlc.cli.shared.arguments import add_globs, add_set, fill_globs, warn_of_other_tool
from dlc.cli.shared.lock_images import find_home, write_lock
from dlc.core.atomic_files import replace_text, report_disk_errors
from dlc.core.checkout import Tree, find_workspace, read_workspace
from dlc.core.environment import cache_folder, list_lost_links
from dlc.image_build.tool_wheel import read_pinned

HELP = "resolve the packages of images and write their locks, with hashes"
EXAMPLE = "dlc lock 'pytorch-2.13-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set."""
    add_globs(parser, at_least_one=True)
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Write five files per image. If an image has no solution, its old lock stays.

    With --set, the lock of an image that then needs other packages or has another name goes to a folder of its own,
    which git ignores.
    """
    workspace = find_workspace()
    for warning in (*list_lost_links(), *list_unused_settings()):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    warn_of_other_tool(tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    if workspace.project and (pin := read_named_tool(tree)):
        print(write_tool(pin, tree, workspace.project))
    homes = {variant.id: find_home(variant, workspace) for variant in variants}
    require_os_packages(variants, tree, cache_folder())
    for variant in variants:
        print(write_lock(variant, tree, homes[variant.id]))
    return 0


def write_tool(pin: ToolPin, tree: Tree, project: Path) -> str:
    """Write the lock of the project's dlc; return the line that says so."""
    text = write_tool_lock(pin, read_pinned(pin, project).needs)
    if TOOL_LOCK not in tree or tree[TOOL_LOCK].data.decode(errors="replace") != text:
        with report_disk_errors(project, ""):
            (project / TOOL_LOCK).parent.mkdir(exist_ok=True)
            replace_text(project / TOOL_LOCK, text)
    return f"{TOOL_LOCK}: dlc {pin.version} and {len(parse_entries(text))} packages"
