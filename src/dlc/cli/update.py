"""`dlc update`: lists newer versions of pinned Python and recorded Debian packages; `--write` takes them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from dlc.buildspec.lockfile import explain_staleness
from dlc.buildspec.locks import resolve, updates
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_json, print_json, print_text, say_progress
from dlc.core.atomic_files import replace_text, replace_together
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import cache_folder
from dlc.core.errors import UsageError
from dlc.core.platforms import ANY_PLATFORM, runs_here, split_suffix
from dlc.debian import suites

HELP = "list newer versions of pinned Python packages or recorded Debian packages"
EXAMPLE = "dlc update packages numpy transformers --write"
DESCRIPTIONS = "packages: pins.yml, and patch releases of frameworks; debian: the recorded versions of each suite"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add WHAT, PACKAGE, --security, --scan, --write, --commit, --json."""
    parser.add_argument("what", choices=["packages", "debian"], help=DESCRIPTIONS)
    parser.add_argument("package", nargs="*", metavar="PACKAGE", help="with `packages`: only these may change")
    parser.add_argument(
        "--security", action="store_true", help="with `packages`: only what `dlc scan` complains about in built images"
    )
    parser.add_argument(
        "--scan", action="append", default=[], metavar="FILE",
        help="with --security: take what `dlc scan ID --json` printed, and scan nothing; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--commit", action="store_true", help="with --security: commit the newer versions, a commit for each image set"
    )
    parser.add_argument("--write", action="store_true", help="write the newer versions into the files, and lock again")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each change."""
    if (args.commit or args.scan) and not args.security:
        raise UsageError("dlc update: --scan and --commit are only for --security", "dlc update packages --security")
    if args.security:
        if args.what != "packages":
            raise UsageError(
                "dlc update debian: --security is for packages", "dlc update debian --write takes all newer versions"
            )
        from dlc.cli.shared.update_security import update_for_security

        return update_for_security(args)
    if args.what == "debian":
        return _update_debian(find_root(), args.write, as_json=args.json)
    return _update_packages(find_root(), args.package, args.write, as_json=args.json)


def _update_packages(root: Path, only: list[str], write: bool, *, as_json: bool) -> int:
    """Print newer pins; with --write take them, unless a changed image has no lock without conflicts."""
    tree = read_tree(root)
    found = updates.find_proposals(tree, load_variants(tree, platform=ANY_PLATFORM), only, say_progress)
    if as_json:
        print_json([describe_proposal(proposal) for proposal in found])
    else:
        lines = [format_proposal(proposal) for proposal in found]
        print_text("\n".join(lines) or "nothing newer that every image can have")
    texts = updates.apply_proposals(tree, found)
    if not write or not texts:
        return 0
    changed = updates.replace_texts(tree, texts)
    touched = [
        variant for variant in load_variants(changed, platform=ANY_PLATFORM) if explain_staleness(changed, variant)
    ]
    locks = {}
    for number, variant in enumerate(touched, 1):
        say_progress(f"{variant.id}: lock (image {number} of {len(touched)})")
        locks[variant.lock_folder] = resolve.make_lock(resolve.make_request(variant))
    # Together: a buildspec without its lock would be stale.
    replace_together(root, texts, locks)
    for folder in locks:
        say_progress(f"{folder}: written")
    return 0


def describe_proposal(proposal: updates.Proposal) -> dict[str, object]:
    """Return the same for programs."""
    pin = proposal.pin
    place = {"file": pin.mark.file, "line": pin.mark.line}
    return {"name": pin.name, "version": str(pin.version), "newer": str(proposal.version), **place}


def format_proposal(proposal: updates.Proposal) -> str:
    """Return `numpy 2.4.6 -> 2.5.5 buildspec/pins.yml:5`."""
    pin = proposal.pin
    return f"{pin.name:<22} {pin.version} -> {proposal.version}  {pin.mark.file}:{pin.mark.line}"


def _update_debian(root: Path, write: bool, *, as_json: bool) -> int:
    changes = {}
    for suite, names in updates.list_debian_packages(load_variants(read_tree(root), platform=ANY_PLATFORM)).items():
        _, platform = split_suffix(suite)
        if platform.suffix and not runs_here(platform.name):
            say_progress(f"{suite}: left as it is, because this host runs no programs of {platform.name}")
            continue
        file = root / suites.versions_path(suite)
        say_progress(f"{suite}: versions of {len(names)} packages and what they need")
        found = updates.resolve_debian(suite, names, cache_folder())
        old = suites.parse_versions(file.read_text()) if file.exists() else {}
        changes[str(file.relative_to(root))] = {"before": old, "after": found}
        if not as_json:
            print_text(as_text(file.relative_to(root), old, found))
        if write:
            replace_text(file, suites.format_versions(suite, found))
    if as_json:
        print_json(changes)
    return 0


def as_text(file: Path, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return the changes of a list, its name first."""
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    lines = [f"  {name} {old.get(name, '-')} -> {new.get(name, '-')}" for name in changed]
    return "\n".join([f"{file}: {len(new)} packages, {len(changed)} changes", *lines])
