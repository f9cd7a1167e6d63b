"""Newer versions of what a scan complains about, and of nothing else: by a pin, or within the lock as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from dlc.buildspec.lockfile import explain_staleness, join_entries, locked_versions, parse_versions
from dlc.buildspec.locks import resolve, updates
from dlc.buildspec.locks.updates import Proposal
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.errors import LockError
from dlc.core.platforms import ANY_PLATFORM

Say = Callable[[str], None]


@dataclass(frozen=True)
class Advisory:
    """What a scan found about a Python package of an image. `fix` names fixed versions, with commas; empty: none."""

    package: str
    version: str
    names: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Need:
    """A package that has to become newer, and why."""

    package: str
    # The least version without any of the faults.
    least: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Bump:
    """A version in a lock that is another one now. `names` are the advisories; none for what had to come along."""

    package: str
    before: str
    after: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageSet:
    """Images that get the same newer versions: one commit."""

    images: tuple[str, ...]
    bumps: tuple[Bump, ...]
    # Path -> text of files of the buildspec with newer pins.
    texts: Mapping[str, str]
    # Folder -> the files of its lock.
    locks: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Outcome:
    """What can be done, and a line for each finding for which nothing can."""

    sets: tuple[ImageSet, ...]
    left: tuple[str, ...]


def list_needs(found: Iterable[Advisory]) -> tuple[list[Need], list[str]]:
    """Return what has to become newer in one image, and what no version fixes."""
    needs: dict[str, Need] = {}
    left = []
    for advisory in found:
        least = _find_least_fix(advisory)
        if not least:
            left.append(f"{advisory.package} {advisory.version}: {advisory.names[0]} is fixed in no later version")
            continue
        known = needs.get(advisory.package)
        if known:
            names = (*known.names, *advisory.names)
            needs[advisory.package] = Need(advisory.package, max(known.least, least, key=Version), names)
        else:
            needs[advisory.package] = Need(advisory.package, least, advisory.names)
    return list(needs.values()), left


def _find_least_fix(advisory: Advisory) -> str:
    """Return the least fixed version that is later than the image's; empty if there is none."""
    later = []
    for word in (word.strip() for word in advisory.fix.split(",")):
        try:
            if Version(word) > Version(advisory.version.partition("+")[0]):
                later.append(word)
        except InvalidVersion:
            continue
    return min(later, key=Version, default="")


def find_updates(tree: Tree, found: Mapping[str, Sequence[Advisory]], say: Say) -> Outcome:
    """Find newer versions for what was found in images, by identifier. Resolves, and writes nothing.

    A version that a pin names changes there, for all images that have it. Any other one changes in the lock alone,
    where all other packages keep their versions if they can.
    """
    variants = {variant.id: variant for variant in load_variants(tree, platform=ANY_PLATFORM)}
    needs: dict[str, list[Need]] = {}
    left: list[str] = []
    for image, advisories in found.items():
        needs[image], unfixed = list_needs(advisories)
        left += [f"{image}: {line}" for line in unfixed]
    proposals = _propose_pins(tree, variants.values(), needs, say)
    changed = updates.replace_texts(tree, updates.apply_proposals(tree, proposals))
    after = {variant.id: variant for variant in load_variants(changed, platform=ANY_PLATFORM)}
    locks: dict[str, Mapping[str, str]] = {}
    for image, variant in after.items():
        limits = _list_limits(tree, variants[image], needs.get(image, ()))
        if not limits and not explain_staleness(changed, variant):
            continue
        say(f"{image}: lock")
        try:
            request = resolve.make_request(variant, join_entries(tree, variants[image]))
            locks[image] = resolve.make_lock(replace(request, constraints=(*request.constraints, *limits)))
        except LockError as error:
            if explain_staleness(changed, variant):
                # A pin that this image shares cannot be changed without it.
                raise
            left.append(f"{image}: {', '.join(limits)}: {error.message.splitlines()[-1]}")
    bumps = {image: _list_bumps(tree, variants[image], files, needs.get(image, ())) for image, files in locks.items()}
    left += _list_unmet(tree, variants, needs, locks)
    sets = _make_sets(tree, variants, bumps, locks, proposals)
    return Outcome(sets, tuple(left))


def _propose_pins(
    tree: Tree, variants: Iterable[Variant], needs: Mapping[str, Sequence[Need]], say: Say
) -> list[Proposal]:
    """Find newer versions of the pins that scans complain about."""
    known = list(variants)
    wanted = {need.package for each in needs.values() for need in each}
    pinned = {pin.name for variant in known if variant.id in needs for pin in updates.find_pins(tree, variant)}
    only = sorted(wanted & pinned)
    return updates.find_proposals(tree, known, only, say) if only else []


def _list_limits(tree: Tree, variant: Variant, needs: Iterable[Need]) -> tuple[str, ...]:
    """Return the constraints for packages whose version no pin and no image file names."""
    pinned = {pin.name for pin in updates.find_pins(tree, variant)}
    return tuple(f"{need.package}>={need.least}" for need in needs if need.package not in pinned)


def _read_versions(files: Mapping[str, str]) -> dict[str, str]:
    return {name: version for text in files.values() for name, version in parse_versions(text).items()}


def _list_bumps(tree: Tree, variant: Variant, files: Mapping[str, str], needs: Iterable[Need]) -> tuple[Bump, ...]:
    before, after = locked_versions(tree, variant), _read_versions(files)
    names = {need.package: need.names for need in needs}
    return tuple(
        Bump(name, before.get(name, ""), after.get(name, ""), names.get(name, ()))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _list_unmet(
    tree: Tree, variants: Mapping[str, Variant], needs: Mapping[str, Sequence[Need]],
    locks: Mapping[str, Mapping[str, str]],
) -> list[str]:  # fmt: skip
    """Return a line for each pinned package that the new locks leave as it was."""
    lines = []
    for image, each in needs.items():
        pinned = {pin.name for pin in updates.find_pins(tree, variants[image])}
        now = _read_versions(locks[image]) if image in locks else locked_versions(tree, variants[image])
        for need in (need for need in each if need.package in pinned):
            version = now.get(need.package, "")
            if version and Version(version.partition("+")[0]) < Version(need.least):
                lines.append(
                    f"{image}: {need.package} stays at {version}: {need.least} or later is needed, and no lock"
                )
                lines[-1] += " of all images that share its version has it"
    return lines


def _make_sets(
    tree: Tree, variants: Mapping[str, Variant], bumps: Mapping[str, tuple[Bump, ...]],
    locks: Mapping[str, Mapping[str, str]], proposals: Sequence[Proposal],
) -> tuple[ImageSet, ...]:  # fmt: skip
    """Make a set of images with the same newer versions; images that share a changed pin are in one set."""
    keys: dict[str, str] = {}
    for image in locks:
        moved = [proposal for proposal in proposals if proposal.pin in updates.find_pins(tree, variants[image])]
        own = ";".join(f"{bump.package} {bump.after}" for bump in bumps[image] if bump.names)
        keys[image] = "pins" if moved else own
    found = []
    for key in dict.fromkeys(keys.values()):
        images = tuple(image for image in locks if keys[image] == key)
        rows = dict.fromkeys(bump for image in images for bump in bumps[image])
        texts = updates.apply_proposals(tree, proposals) if key == "pins" else {}
        found.append(ImageSet(images, _merge(rows), texts, {variants[i].lock_folder: locks[i] for i in images}))
    return tuple(each for each in found if each.bumps)


def _merge(bumps: Iterable[Bump]) -> tuple[Bump, ...]:
    """Return each change of a version once, with the advisories of all images."""
    merged: dict[tuple[str, str, str], dict[str, None]] = {}
    for bump in bumps:
        merged.setdefault((bump.package, bump.before, bump.after), {}).update(dict.fromkeys(bump.names))
    return tuple(Bump(*change, tuple(names)) for change, names in sorted(merged.items()))


def write_message(found: ImageSet) -> str:
    """Write the message of a set's commit: old and new versions, why, and in which images."""
    because = [bump for bump in found.bumps if bump.names]
    along = [bump for bump in found.bumps if not bump.names]
    names = ", ".join(dict.fromkeys(bump.package for bump in because))
    lines = [f"Security updates of {len(found.images)} images: {names}"[:72], ""]
    lines += [f"{_format(bump)}  {' '.join(bump.names)}" for bump in because]
    lines += ["", "With them:", *map(_format, along)] if along else []
    return "\n".join([*lines, "", "Images:", *found.images, ""])


def _format(bump: Bump) -> str:
    return f"{bump.package} {bump.before or '(none)'} -> {bump.after or '(none)'}"
