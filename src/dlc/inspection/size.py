"""What takes space in an image: layers, packages, the largest files, bytes never seen; and its budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlc.buildspec.models import Budget
from dlc.core.errors import ImageError
from dlc.inspection.archive import Archive, Hidden, resolve_layers
from dlc.inspection.facts import Facts, Step


@dataclass(frozen=True)
class Share:
    """Something that takes bytes: a package (`debian libc6 2.36`) or a file (its path)."""

    name: str
    bytes: int


@dataclass(frozen=True)
class SizeReport:
    """Sizes in bytes. `bytes` is what the engine stores unpacked, in blocks; files and packages count their content."""

    ref: str
    bytes: int
    # Bytes of the layers, as a push sends them; 0: not measured.
    compressed: int
    layers: tuple[Step, ...]
    # The largest first.
    packages: tuple[Share, ...]
    # The largest first.
    files: tuple[Share, ...]
    # The largest first.
    hidden: tuple[Hidden, ...]

    @property
    def hidden_bytes(self) -> int:
        """Return the bytes that are stored in a layer and written again or deleted by a higher one."""
        return sum(item.bytes for item in self.hidden)


def make_report(facts: Facts, archive: Archive, compressed: int = 0) -> SizeReport:
    """Make the whole report of an image."""
    seen, hidden = resolve_layers(archive.layers)
    packages = [Share(f"{package.kind} {package.name} {package.version}", package.bytes) for package in facts.packages]
    files = [Share(f"/{path}", entry.size) for path, entry in seen.items() if entry.size]
    return SizeReport(
        ref=facts.ref,
        bytes=facts.bytes,
        compressed=compressed,
        layers=facts.steps,
        packages=tuple(sorted(packages, key=lambda share: (-share.bytes, share.name))),
        files=tuple(sorted(files, key=lambda share: (-share.bytes, share.name))),
        hidden=tuple(sorted(hidden, key=lambda item: (-item.bytes, item.path))),
    )


@dataclass(frozen=True)
class Change:
    """A package whose bytes differ; 0 if an image does not hold it."""

    name: str
    before: int
    after: int


def find_size_changes(before: Facts, after: Facts) -> tuple[Change, ...]:
    """Return packages that take other bytes than before, the largest change first."""
    old, new = ({f"{p.kind} {p.name}": p.bytes for p in facts.packages} for facts in (before, after))
    found = [Change(name, old.get(name, 0), new.get(name, 0)) for name in sorted({*old, *new})]
    return tuple(
        sorted((c for c in found if c.before != c.after), key=lambda change: -abs(change.after - change.before))
    )


def require_within(budget: Budget, size: int, ref: str, largest: Sequence[Share], compressed: int = 0) -> None:
    """Raise ImageError when `size` bytes, or those that a push sends, are over the image's budget."""
    top = ", ".join(f"{share.name} {share.bytes / 1e6:.0f} MB" for share in largest[:3])
    for what, found, limit in (("", size, budget.bytes), (" compressed", compressed, budget.compressed_bytes)):
        if found > limit:
            raise ImageError(
                f"{ref}: expected at most {limit / 1e9:g} GB{what} ({budget.why}), found {found / 1e9:.3f}\n"
                f"  largest: {top}",
                "remove what is not needed, or raise the budget and say why",
            )
