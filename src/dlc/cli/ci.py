"""`dlc ci`: writes the file of a CI system, with a job for each image."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import add_globs, fill_globs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree

HELP = "write the file of a CI system: a job for each image, from its build to its promotion"
EXAMPLE = "dlc ci github >.github/workflows/images.yml"
# System -> where it looks for the file.
SYSTEMS = {"github": ".github/workflows/images.yml", "gitlab": ".gitlab-ci.yml", "codebuild": "buildspec.yml"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SYSTEM, GLOB."""
    parser.add_argument("system", choices=SYSTEMS, metavar="SYSTEM", help="github, gitlab or codebuild")
    add_globs(parser)


def run(args: argparse.Namespace) -> int:
    """Print the file. Images that get no fixes any more have no job, unless they are named."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import INSTALLED, find_workspace, read_workspace

    workspace = find_workspace()
    tree = read_workspace(workspace)
    named = list(args.globs)
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, platform=args.platform)
    chosen = [variant for variant in variants if named or not variant.header.unsupported]
    is_checkout = workspace.project is None and workspace.recipes != INSTALLED
    print(write_file(args.system, chosen, tree, named, is_checkout=is_checkout), end="")
    return 0


def write_file(system: str, variants: Sequence[Variant], tree: Tree, named: Sequence[str], *, is_checkout: bool) -> str:
    """Return the text of a CI system's file for these images.

    Outside a checkout the file installs the dlc that the project pins. Raises SpecError if the project pins none.
    """
    from importlib import import_module

    from dlc.buildspec.tool_pin import require_tool_pin
    from dlc.plan.ci.jobs import make_jobs, render_text

    if not is_checkout:
        require_tool_pin(tree)
    module = import_module(f"dlc.plan.ci.{system}")
    content = module.render(make_jobs(variants, tree), is_checkout=is_checkout)
    return render_text(content, shlex.join(["dlc", "ci", system, *named]), module.VERSIONS)
