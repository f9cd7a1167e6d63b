"""`dlc init`: makes a project: dlc.yml, a script that runs, and the lock of an image of one's own."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import dlc
from dlc.buildspec.devcontainer import FILE as DEVCONTAINER
from dlc.buildspec.devcontainer import write_devcontainer
from dlc.buildspec.lockfile import ADDED, read_entries, with_headers
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.project import LONGEST_NAME
from dlc.buildspec.selection import find_image
from dlc.buildspec.tool_pin import PIN
from dlc.buildspec.variant import Variant
from dlc.cli.shared import init_tool
from dlc.core.atomic_files import report_disk_errors, write_new_files
from dlc.core.checkout import PROJECT, SourceFile, Tree, find_workspace, read_tree, read_workspace
from dlc.core.environment import user_path
from dlc.core.errors import SpecError, UsageError
from dlc.core.platforms import ANY_PLATFORM
from dlc.image_build.tool_wheel import HASH_WORD, ToolWheel

HELP = "make a project: an image of your own on top of a released one, and a job that runs in it"
EXAMPLE = "dlc init demo --from pytorch-2.13-training-cpu-py311 --package einops"
DEFAULT = "pytorch-2.13-training-cpu-py311"
SCRIPT = "train.py"
IGNORED = """\
# Results of `dlc run`, locks of --set, drafts of a `dlc lock` that was killed.
dlc-jobs/
locks/*-set-*/
.drafts/
"""
TEXT = """\
# An image of your own, on top of a released one. `dlc show` prints all its settings, and where each is set.
requires: dlc >= {version}
# The last part of the image's name, {base}-{name}.
name: {name}
# The released image that it starts from: `dlc list '*'`. Another one is another lock: `dlc lock`.
from: {base}

# Python packages on top, or in other versions: NAME, NAME>=VERSION, NAME==VERSION, NAME @ ADDRESS.
packages: [{packages}]
# Debian packages on top.
os_packages: []

# The first part of its reference: {name}/{framework}:...
repository: {name}
labels: {{}}
# Environment variables of the image.
env: {{}}
# The largest size that `dlc size` accepts.
budget: {{gigabytes: "{gigabytes}", why: "{base} and my packages"}}

# What `dlc run` runs.
script: {script}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add DIR, --from, --name, --package, --devcontainer, --tool."""
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="(default: the current folder)")
    parser.add_argument(
        "--from", dest="base", default="", metavar="ID", help=f"the released image (default: {DEFAULT})"
    )
    parser.add_argument("--name", default="", help="last part of the image's name (default: the folder's name)")
    parser.add_argument(
        "--package", action="append", default=[], dest="packages", metavar="REQUIREMENT",
        help="a Python package on top, as NAME, NAME>=1.2 or NAME @ ADDRESS; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--devcontainer", action="store_true",
        help="also write a devcontainer.json, for editors that work in the image; alone in a project that is there",
    )  # fmt: skip
    parser.add_argument(
        "--tool", default="", metavar="FILE|ADDRESS",
        help=f"pin this wheel of dlc, a file or an https address with {HASH_WORD}HASH (default: this dlc's); also in a "
        "project that is there",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Write the project's files, all of them or none; files that are there stay as they are."""
    folder = user_path(args.folder).absolute()
    with report_disk_errors(folder, ""):
        is_project = (folder / PROJECT).exists()
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if is_project:
        refuse_words_of_new(args, folder / PROJECT)
    if is_project and args.tool:
        init_tool.pin_tool(args.tool, folder)
        if not args.devcontainer:
            return 0
    why, files = "", list_additions(folder) if is_project else {}
    if not is_project:
        tool, why = init_tool.choose_tool(args.tool)
        recipes = find_workspace().recipes
        files = list_files(args, folder, read_tree(recipes), recipes, tool)
    new = {path: text for path, text in files.items() if path not in there and not (folder / path).exists()}
    with report_disk_errors(folder, ""):
        write_new_files(folder, new)
    for path in new:
        print(Path(args.folder, path))
    for path in files.keys() - new.keys():
        print(f"{Path(args.folder, path)}: there already, left as it is")
    if why:
        print(f"{PROJECT}: tool is left out: {why}\n  remedy: {PIN}")
    steps = [*([f"cd {shlex.quote(args.folder)}"] if args.folder != "." else []), "dlc build", "dlc run"]
    last = "; or open the folder in its dev container once it is built" if DEVCONTAINER in files else ""
    print(f"next: {' && '.join(steps)}{last}")
    return 0


def refuse_words_of_new(args: argparse.Namespace, file: Path) -> None:
    """Raise UsageError if nothing is asked for that a project which is there can get, or what only a new one gets."""
    if not (args.devcontainer or args.tool):
        raise UsageError(f"{file}: this folder is a project already", "edit its dlc.yml, or name another")
    for option, value in (("--from", args.base), ("--name", args.name), ("--package", args.packages)):
        if value:
            raise UsageError(f"{option}: expected a folder that is no project yet, found {file}", "edit its dlc.yml")


def list_additions(folder: Path) -> dict[str, str | bytes]:
    """Return the files that `--devcontainer` adds to a project."""
    own = load_variants(read_workspace(find_workspace(folder)), platform=ANY_PLATFORM)[-1]
    return {DEVCONTAINER: write_devcontainer(own)}


def list_files(
    args: argparse.Namespace, folder: Path, tree: Tree, recipes: Path, tool: ToolWheel | None
) -> dict[str, str | bytes]:
    """Return the files of a new project, dlc.yml last: without it the folder is none.

    Raises SelectorError for an image that there is not, UsageError for words that no dlc.yml may have.
    """
    _, base = find_image(args.base or DEFAULT, load_variants(tree, platform=ANY_PLATFORM))
    if base is None:
        raise UsageError(
            f"--from {args.base}: expected an image of `dlc list`, found a reference", "dlc list; dlc help own-images"
        )
    text = write_text(base, args.name or make_name(folder.resolve().name), args.packages)
    text += init_tool.write_entry(tool.pin) if tool else ""
    try:
        own = load_variants({**tree, PROJECT: SourceFile(text.encode())}, platform=ANY_PLATFORM)[-1]
    except SpecError as error:
        raise UsageError(
            f"no project: these words would make this {PROJECT}:\n{error.message}", "dlc init --help"
        ) from None
    script = recipes / f"examples/{base.header.framework}/{SCRIPT}"
    files: dict[str, str | bytes] = {".gitignore": IGNORED, SCRIPT: script.read_text()}
    files |= init_tool.list_tool_files(tool, folder) if tool else {}
    if own.lock_input() == base.lock_input():
        # The same request: nothing is added to the released lock, and no index has to be asked.
        texts = with_headers(own.lock_digest(), {**read_entries(tree, base), ADDED: ""}, own.settings.platform)
        files |= {f"{own.lock_folder}/{name}": text for name, text in texts.items()}
    if args.devcontainer:
        files[DEVCONTAINER] = write_devcontainer(own)
    return {**files, PROJECT: text}


def make_name(folder_name: str) -> str:
    """Return the folder's name as an image may have it."""
    name = re.sub(r"[^a-z0-9]+", "-", folder_name.lower()).strip("-")
    return name[:LONGEST_NAME].strip("-") or "own"


def write_text(base: Variant, name: str, packages: Sequence[str]) -> str:
    """Return the text of dlc.yml."""
    return TEXT.format(
        version=".".join(dlc.__version__.split(".")[:2]),
        base=base.id,
        name=name,
        packages=", ".join(f'"{word}"' for word in packages),
        framework=base.header.framework,
        gigabytes=base.settings.budget.gigabytes,
        script=SCRIPT,
    )
