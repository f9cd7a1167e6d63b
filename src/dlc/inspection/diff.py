"""The differences of two images: packages, files, bytes, environment, labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlc.inspection.archive import Archive, Entry, resolve_layers
from dlc.inspection.facts import Facts


@dataclass(frozen=True)
class Change:
    """One thing that differs; an empty text on the side that does not have it."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class ImageDiff:
    """Everything that differs between two images, each list in the order of its names."""

    before: str
    after: str
    # Bytes that the second takes more than the first, unpacked.
    bytes: int
    packages: tuple[Change, ...]
    environment: tuple[Change, ...]
    labels: tuple[Change, ...]
    files: tuple[Change, ...]


def compare_images(before: Facts, after: Facts, old: Archive, new: Archive) -> ImageDiff:
    """Return the differences of two images, with files as a container sees them, without their times."""
    return ImageDiff(
        before=before.ref,
        after=after.ref,
        bytes=after.bytes - before.bytes,
        packages=find_changes(_list_versions(before), _list_versions(after)),
        environment=find_changes(before.environment, after.environment),
        labels=find_changes(before.labels, after.labels),
        files=find_changes(_list_files(old), _list_files(new)),
    )


def find_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """Return entries that only one mapping has, or whose values differ."""
    names = sorted({*before, *after})
    found = [Change(name, before.get(name, ""), after.get(name, "")) for name in names]
    return tuple(change for change in found if change.before != change.after)


def _list_versions(facts: Facts) -> dict[str, str]:
    return {f"{package.kind} {package.name}": package.version for package in facts.packages}


def _list_files(archive: Archive) -> dict[str, str]:
    """Return every path with its entry in words."""
    seen, _ = resolve_layers(archive.layers)
    return {f"/{path}": _describe_entry(entry) for path, entry in seen.items()}


def _describe_entry(entry: Entry) -> str:
    """Describe kind, mode, owner, and content or target: all but the time."""
    content = f"{entry.size} bytes sha256:{entry.sha256[:12]}" if entry.sha256 else entry.target
    return f"{entry.kind} {entry.mode:04o} {entry.owner} {content}".rstrip()
