"""`dlc export`: writes a folder that `docker build` alone turns into an image."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import add_set, warn_of_end, warn_of_other_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree

HELP = "write a folder that plain `docker build` turns into an image, without dlc"
EXAMPLE = "dlc export pytorch-2.13-training-cpu-py311 pytorch-image"
INTERMIXED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, DIR, --base-image, --bake, --set."""
    parser.add_argument("image", metavar="ID", help="an image identifier, or a glob that selects one")
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder to write: a new or an empty one")
    parser.add_argument(
        "--base-image", metavar="REF", default="",
        help="begin from this image of Debian or Ubuntu, not from Debian packages; as --set base.image=REF",
    )  # fmt: skip
    parser.add_argument("--bake", action="store_true", help="write a docker-bake.json too, for docker buildx bake")
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Plan the image, render its folder, write it whole or not at all."""

    from dlc.core import labels
    from dlc.core.checkout import find_workspace, read_workspace
    from dlc.core.environment import user_path
    from dlc.image_build.buildx import read_revision
    from dlc.image_build.export import folder, writer
    from dlc.plan.plan import plan_variants

    target = user_path(str(args.folder)).absolute()
    writer.require_new_folder(target)
    workspace = find_workspace()
    tree = read_workspace(workspace)
    sets = [*args.sets, *([f"base.image={args.base_image}"] if args.base_image else [])]
    variant = select_one(tree, args.image, sets)
    plan = plan_variants([variant], tree, [args.image], sets)
    warn_of_end([variant])
    warn_of_other_tool(tree)
    revision, epoch = read_revision(workspace.root)
    stamps = {labels.CREATED: labels.format_time(epoch), labels.REVISION: revision}
    files = folder.list_files(plan, tree, stamps, epoch, bake=args.bake)
    writer.write_folder(files, target)
    print(f"{args.folder}  {variant.ref}  content key {plan.target(variant.id).key[:12]}")
    platform = f"--platform {variant.platform.name} " if variant.platform.suffix else ""
    print(f"next: docker build {platform}-t {variant.ref} {shlex.quote(str(args.folder))}")
    return 0


def select_one(tree: Tree, word: str, sets: Sequence[str]) -> Variant:
    """Return the one image that a word selects. Raises SelectorError for none, UsageError for several."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.errors import UsageError

    found = load_variants(tree, [word], sets)
    if len(found) > 1:
        names = ", ".join(variant.id for variant in found)
        raise UsageError(f"{word}: expected one image, found {len(found)}: {names}", "name one of them")
    return found[0]
