"""Takes for `dlc update packages --security` newer versions of what scans complain about."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from dlc.buildspec.locks.security import Advisory, ImageSet, Outcome, find_updates, write_message
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant, normal_name
from dlc.cli.shared.arguments import print_json, say_progress
from dlc.core.atomic_files import replace_together
from dlc.core.checkout import Tree, find_root, read_tree
from dlc.core.environment import user_path
from dlc.core.errors import UsageError
from dlc.core.process import run_program
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.engine.pushed import pull_pushed
from dlc.inspection import facts
from dlc.inspection.advisories import Finding, read_exceptions
from dlc.inspection.scan import parse_scan, scan_image


def update_for_security(args: argparse.Namespace) -> int:
    """Scan, find newer versions, print them; with --write write them, with --commit commit each image set."""
    root = find_root()
    tree = read_tree(root)
    variants = load_variants(tree)
    if args.package:
        raise UsageError(
            "dlc update packages --security: expected no PACKAGE, found " + " ".join(args.package),
            "the scan says which packages; --scan FILE takes what `dlc scan --json` printed",
        )
    if args.commit:
        _require_clean(root)
    found = read_scans(args.scan, variants) if args.scan else _scan_built(tree, variants)
    outcome = find_updates(tree, {image: each for image, each in found.items() if each}, say_progress)
    if args.json:
        print_json(as_dict(outcome))
    else:
        print(as_text(outcome))
    for image_set in outcome.sets if args.write or args.commit else ():
        _write(root, image_set, commit=args.commit)
    return 0


def _scan_built(tree: Tree, variants: Sequence[Variant]) -> dict[str, list[Advisory]]:
    """Scan the images that are built; name the others, of which nothing is known."""
    engine = connect()
    refs = {variant.id: variant.ref for variant in variants}
    pull_pushed(engine, refs.values())
    there = images.find_keys(engine, refs.values())
    found = {}
    for image, ref in refs.items():
        if ref not in there:
            say_progress(f"{image}: not built, so not scanned")
            continue
        say_progress(f"{image}: known vulnerabilities")
        captured = facts.capture_facts(engine, ref)
        verdict = scan_image(engine, captured, read_exceptions(tree), os.environ, date.today()).verdict
        python = {normal_name(package.name) for package in captured.of_kind("python")}
        found[image] = [_make_advisory(each) for each in verdict.against if each.package in python]
    return found


def _make_advisory(finding: Finding) -> Advisory:
    return Advisory(finding.package, finding.version, (finding.advisory, *finding.aliases), finding.fix)


def read_scans(paths: Sequence[str], variants: Sequence[Variant]) -> dict[str, list[Advisory]]:
    """Read what `dlc scan --json` printed, a file for each image. Raises UsageError for another file or image."""
    ids = {variant.ref: variant.id for variant in variants}
    found = {}
    for path in map(user_path, paths):
        try:
            scan = parse_scan(json.loads(path.read_text()))
        except (ValueError, RecursionError):
            raise UsageError(f"{path}: expected what `dlc scan --json` prints, found another file") from None
        if scan.ref not in ids:
            raise UsageError(f"{path}: expected a scan of an image of this checkout, found one of {scan.ref}")
        # Debian's updates have the package's own name in their advisory.
        python = [each for each in scan.verdict.against if each.advisory != f"{each.package}-update"]
        found[ids[scan.ref]] = [_make_advisory(each) for each in python]
    return found


def _require_clean(root: Path) -> None:
    """Raise UsageError if files of the buildspec or of locks are changed: a commit would hold them too."""
    said = _ask_git(root, "status", "--porcelain", "--", "buildspec", "docker")
    if said:
        first = said.splitlines()[0].strip()
        raise UsageError(
            f"dlc update packages --security --commit: expected buildspec and docker as git has them, found: {first}",
            "commit or stash your changes first",
        )


def _write(root: Path, image_set: ImageSet, *, commit: bool) -> None:
    """Write files and locks of a set, and commit them alone."""
    # Together: a buildspec without its lock would be stale.
    replace_together(root, image_set.texts, image_set.locks)
    paths = [*image_set.texts, *image_set.locks]
    if commit:
        _ask_git(root, "add", "--", *paths)
        commit_words = ("commit", "--quiet", "--message", write_message(image_set), "--", *paths)
        _ask_git(
            root, *commit_words, remedy="the newer versions are staged: mend that and `git commit`, then run again"
        )
    say_progress(f"{'committed' if commit else 'written'}: {', '.join(image_set.images)}")


def _ask_git(root: Path, *words: str, remedy: str = "git status") -> str:
    done = run_program(["git", "-C", str(root), *words], check=False)
    if done.returncode:
        raise UsageError(f"git {words[0]} in {root}: {(done.stderr or done.stdout).strip()}", remedy)
    return done.stdout


def as_dict(outcome: Outcome) -> Mapping[str, Any]:
    """Return a value for JSON."""
    sets = [{"images": each.images, "bumps": [asdict(bump) for bump in each.bumps],
             "files": [*each.texts, *each.locks]} for each in outcome.sets]  # fmt: skip
    return {"sets": sets, "left": outcome.left}


def as_text(outcome: Outcome) -> str:
    """Return the message of each set's commit, then what nothing can be done about."""
    blocks = [write_message(each).rstrip() for each in outcome.sets]
    blocks += ["left:\n" + "\n".join(f"  {line}" for line in outcome.left)] if outcome.left else []
    return "\n\n".join(blocks) or "nothing to update: no scan complains about a Python package"
