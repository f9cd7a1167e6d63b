"""Shows for `dlc plan --changed-since` which images a commit builds anew, and reads the sources as git has them."""

from __future__ import annotations

import argparse
import re
import stat
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.shared.arguments import fill_globs, print_json, print_text
from dlc.core.atomic_files import scratch_folder
from dlc.core.checkout import (
    FOLDERS,
    LOCKS,
    PROJECT,
    SIGN,
    SourceFile,
    Tree,
    Workspace,
    find_workspace,
    is_left_over,
    read_tree,
    read_workspace,
)
from dlc.core.environment import PLATFORM
from dlc.core.errors import SelectorError, SpecError, UsageError
from dlc.core.process import last_lines, run_program
from dlc.plan.changes import NO_REVISION, Rebuilt, find_rebuilt

# What CI systems name. Such a commit is unknown if somebody has pushed another history over it.
WHOLE_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
FETCH = "name a commit, tag or branch that `git log REV` knows; CI systems fetch little: fetch the whole history"


def show_rebuilt(args: argparse.Namespace) -> int:
    """Print the images whose content key is another one than at the revision."""
    workspace = find_workspace()
    now = read_workspace(workspace)
    fill_globs(args, now)
    found = find_changed_images(workspace, now, args.changed_since, args.globs, args.sets, args.platform)
    if args.json:
        print_json([asdict(each) for each in found])
    elif args.names:
        print("".join(f"{each.id}\n" for each in found), end="")
    else:
        print_text(as_text(found, args.changed_since))
    return 0


def find_changed_images(
    workspace: Workspace,
    now: Tree,
    revision: str,
    globs: Sequence[str],
    sets: Sequence[str],
    platform: str = PLATFORM,
) -> tuple[Rebuilt, ...]:
    """Find the images whose content key is another one than at the revision. Raises UsageError for a wrong revision."""
    after = load_variants(now, globs, sets, platform)
    then = read_workspace_at(workspace, revision)
    before: Sequence[Variant] | None
    try:
        before = load_variants(then, globs, sets, platform) if then else ()
    except SelectorError:
        before = ()
    except SpecError:
        # An earlier dlc wrote the buildspec in another way: nobody knows what was built then.
        before = None
    return find_rebuilt(before, after, then, now)


def read_workspace_at(workspace: Workspace, revision: str) -> Tree:
    """Read recipes and project as they are in git at a revision; NO_REVISION has nothing.

    Recipes outside the project's repository, as those of an installed dlc, are taken as they are now. A commit's whole
    id that git does not know has nothing either: a forced push has taken it away.
    Raises UsageError if git does not know the folder or the revision.
    """
    if revision == NO_REVISION:
        return {}
    top = _find_top(workspace.root)
    if WHOLE_ID.fullmatch(revision) and not _is_known(top, revision):
        print(
            f"dlc: git does not know the commit {revision}, as after a forced push: all images count as changed",
            file=sys.stderr,
        )
        return {}
    commit = _ask_git(workspace.root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    here = workspace.recipes.is_relative_to(top)
    recipes = read_at(workspace.recipes, commit, FOLDERS) if here else read_tree(workspace.recipes)
    if here and SIGN.as_posix() not in recipes:
        # The repository was none of dlc yet.
        return {}
    if not workspace.project:
        return recipes
    own = read_at(workspace.project, commit, (PROJECT, LOCKS))
    return {**recipes, **own} if own or workspace.project == workspace.recipes else recipes


def read_at(folder: Path, commit: str, names: Sequence[str]) -> Tree:
    """Read files and folders below a folder of a git repository at a commit, by their paths from it; none is no error.

    A commit holds no LEFTOVERS that the tree of now would not have: those that somebody committed are left out as well.
    """
    there = [name for name in names if _ask_git(folder, "ls-tree", "--name-only", commit, "--", name)]
    if not there:
        return {}
    with scratch_folder("dlc-since-") as place:
        path = place / "tree.tar"
        _ask_git(folder, "archive", "--format=tar", f"--output={path}", commit, "--", *there)
        with tarfile.open(path) as archive:
            members = sorted((each for each in archive if each.isfile()), key=lambda each: each.name)
            return {
                member.name: SourceFile(content.read(), bool(member.mode & stat.S_IXUSR))
                for member in members
                if not any(is_left_over(part) for part in Path(member.name).parts)
                and (content := archive.extractfile(member))
            }


def _find_top(folder: Path) -> Path:
    """Return the top folder of the git repository that a folder lies in."""
    return Path(_ask_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))


def _is_known(folder: Path, commit: str) -> bool:
    return run_program(["git", "-C", str(folder), "cat-file", "-e", commit], check=False).returncode == 0


def _ask_git(folder: Path, *words: str) -> str:
    done = run_program(["git", "-C", str(folder), *words], check=False)
    if done.returncode:
        raise UsageError(f"--changed-since: git says of {folder}: {last_lines(done.stderr, 1)}", FETCH)
    return done.stdout


def as_text(found: Sequence[Rebuilt], revision: str) -> str:
    """Return a line for each image that is built anew, with its parts, and a line that counts."""
    width = max((len(each.id) for each in found), default=0)
    lines = [f"{each.id:<{width}}  {each.why or ', '.join(each.parts)}" for each in found]
    return "\n".join([*lines, f"{len(found)} images are built anew since {revision}"])
