"""What the catalogue knows of each image: from the buildspec and its lock, from an engine, and from records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlc.buildspec.variant import Variant
from dlc.inspection.facts import Facts
from dlc.inspection.gpu import GpuCode
from dlc.inspection.junit import ImageTests
from dlc.inspection.scan import Scan


@dataclass(frozen=True)
class Built:
    """An image as an engine has it."""

    facts: Facts
    # All names that the engine has for it, and where it was pushed to or pulled from, by digest.
    tags: tuple[str, ...]
    pushed: tuple[str, ...]
    # None for an image without CUDA.
    gpu: GpuCode | None = None


@dataclass(frozen=True)
class ScanResult:
    """A scan of a day, of the image with this digest; both are empty if the record does not say."""

    day: str
    digest: str
    scan: Scan


@dataclass(frozen=True)
class RebuildResult:
    """Whether two builds gave the same bytes, and the digest of the first."""

    day: str
    digest: str
    identical: bool
    # If a second builder built what another one had pushed: that image's configuration, which names it too.
    config: str = ""


@dataclass(frozen=True)
class SignatureResult:
    """Who signed the digest, as a verification found."""

    day: str
    digest: str
    signed_by: str
    # Of the image's configuration, if the record says it: an engine that keeps images itself names them so.
    config: str = ""
    # Why the verification refused the image; nothing if it passed.
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checks:
    """What was checked of an image; None for what no record tells of."""

    tests: ImageTests | None = None
    scan: ScanResult | None = None
    rebuild: RebuildResult | None = None
    signature: SignatureResult | None = None


@dataclass(frozen=True)
class Sighting:
    """A digest that an earlier catalogue or this one saw: its first day, and the bytes of its layers."""

    digest: str
    day: str
    bytes: int


@dataclass(frozen=True)
class Memory:
    """What earlier catalogues in the same folder knew of an image: digests, and the first day of each advisory."""

    digests: tuple[Sighting, ...] = ()
    # "ADVISORY PACKAGE" -> the day on which a scan found it first.
    findings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """All that the catalogue knows of one image."""

    variant: Variant
    # Normal name -> locked version; empty without a lock.
    locked: Mapping[str, str]
    # Normal name -> the file of its lock that has it.
    lock_files: Mapping[str, str] = field(default_factory=dict)
    # Why its lock may not be used, empty if it may; and the content key that the recipes give it now.
    stale: str = ""
    key: str = ""
    # The label that the recipes give it.
    licences: str = ""
    built: Built | None = None
    checks: Checks = Checks()
    memory: Memory = Memory()

    @property
    def id(self) -> str:
        """Return the image's identifier."""
        return self.variant.id

    @property
    def path(self) -> str:
        """Return the path of its page in the site."""
        return f"images/{self.id}.html"

    @property
    def bill_path(self) -> str:
        """Return the path of its bill of materials, which an image has once it is built."""
        return f"images/{self.id}.spdx.json"


@dataclass(frozen=True)
class Catalogue:
    """Everything that is written: images, documents by path (`docs/build.md`), other files that they link to."""

    entries: tuple[Entry, ...]
    documents: Mapping[str, str]
    files: Mapping[str, bytes]
    # The day on which it is made; the commit of the recipes, or empty.
    day: str
    revision: str
    # dlc's.
    version: str
    # Whether an engine was asked.
    engine: bool
    # What earlier catalogues knew, of images that this one does not show too.
    memory: Mapping[str, Memory] = field(default_factory=dict)
