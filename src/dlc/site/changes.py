"""What is new in an image against the version before: of the framework, and of every package that both lock. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlc.buildspec.versions import parse_number
from dlc.inspection.diff import Change, find_changes
from dlc.site.values import Entry


@dataclass(frozen=True)
class News:
    """What differs between an image and the one of the version before it."""

    before: Entry
    # Python, Debian, device and support.
    settings: tuple[Change, ...]
    packages: tuple[Change, ...]
    # Bytes that it takes more; None unless both are built.
    bytes: int | None

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many packages came, went, and have another version."""
        return {
            "new": sum(1 for change in self.packages if not change.before),
            "gone": sum(1 for change in self.packages if not change.after),
            "other versions": sum(1 for change in self.packages if change.before and change.after),
        }


def find_news(entry: Entry, entries: Sequence[Entry]) -> News | None:
    """Compare an image with the nearest lower version for the same job, kind of device and platform.

    None if it is the first.
    """
    own = parse_number(entry.variant.header.version)
    kin = [other for other in entries if _name_kind(other) == _name_kind(entry)]
    lower = [other for other in kin if parse_number(other.variant.header.version) < own]
    if not lower:
        return None
    before = max(lower, key=lambda other: parse_number(other.variant.header.version))
    grown = entry.built.facts.bytes - before.built.facts.bytes if entry.built and before.built else None
    settings = find_changes(_list_settings(before), _list_settings(entry))
    return News(before, settings, find_changes(before.locked, entry.locked), grown)


def _name_kind(entry: Entry) -> tuple[str, str, bool, str, str]:
    header, settings = entry.variant.header, entry.variant.settings
    return header.framework, header.job, settings.device == "cpu", settings.flavor, settings.platform


def _list_settings(entry: Entry) -> dict[str, str]:
    variant = entry.variant
    return {
        "framework": variant.header.version,
        "Python": variant.settings.python,
        "system": variant.settings.base.image or f"debian-{variant.suite}",
        "device": variant.settings.device,
        "fixes until": variant.header.eop,
    }
