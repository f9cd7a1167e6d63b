"""One image that can be built: its names, its settings, what its lock must hold, and when its support ends."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache

from packaging.utils import canonicalize_name

from dlc.buildspec.models import Header, Settings
from dlc.checked_yaml.yaml_layers import Node
from dlc.core.checkout import LOCKS
from dlc.core.errors import ImageError
from dlc.core.platforms import FIRST, PLATFORMS, Platform
from dlc.debian.suites import find_suite

# Digits of a digest that is part of a name.
DIGITS = 8
NOTICE = timedelta(days=90)


@dataclass(frozen=True)
class IndexedPackages:
    """Packages (normal names) of one image that come from an index of the buildspec, for this Python and C library."""

    index: str
    address: str
    packages: tuple[str, ...]
    # As in 3.11.
    python: str
    # As in 2.36.
    glibc: str
    # As in x86_64.
    machine: str = FIRST.machine


@dataclass(frozen=True)
class Variant:
    """An image of the matrix. Requirements are exact (`torch==2.13.0+cpu`) or names, the framework's own first.

    Those that name no version are for `dlc lock` to choose, within `constraints` (`transformers<5`).
    `plain` is the image of the buildspec's files that --set made this one from; None for those images themselves.
    `base` is the released image that a project's image (dlc.yml) starts from; None for released images.
    """

    header: Header
    settings: Settings
    node: Node
    framework_requirements: tuple[str, ...]
    training_requirements: tuple[str, ...]
    plain: Variant | None = None
    constraints: tuple[str, ...] = ()
    base: Variant | None = None
    # Each platform -> why the image cannot be had for it; an empty reason: it can.
    platforms: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return `pytorch-2.13-training-cpu-py311`; with `-arm64` at its end for linux/arm64."""
        return f"{self.header.framework}-{self._rest}"

    @property
    def ref(self) -> str:
        """Return `dlc/pytorch:2.13-training-cpu-py311`, with `-set-0123abcd` at the end if --set changes it."""
        return f"{self.settings.repository}/{self.header.framework}:{self._rest}{self.suffix}"

    @cached_property
    def suffix(self) -> str:
        """Return `-set-` and a digest of the settings that --set changed; empty if it changed none.

        Repository, budget and the addresses of indexes do not count: they change nothing in the image.
        """
        if self.plain is None:
            return ""
        before, after = ({path: leaf.plain() for path, leaf in variant.node.leaves()} for variant in (self.plain, self))
        changed = {
            path: value for path, value in after.items() if before.get(path) != value and not _changes_nothing(path)
        }
        digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
        return f"-set-{digest[:DIGITS]}" if changed else ""

    @property
    def _rest(self) -> str:
        header, settings = self.header, self.settings
        flavor = f"-{settings.flavor}" if settings.flavor else ""
        python = settings.python.replace(".", "")
        return f"{header.version}-{header.job}-{settings.device}-py{python}{flavor}{self.platform.suffix}"

    @property
    def platform(self) -> Platform:
        """Return the platform that it is made for."""
        return PLATFORMS[self.settings.platform]

    @property
    def family(self) -> str:
        """Return the identifier without the platform: that of the images which are one under a tag."""
        return self.id.removesuffix(self.platform.suffix)

    @property
    def suite(self) -> str:
        """Return Debian's name of the release that packages this Python."""
        return self.settings.suites[self.settings.python]

    @property
    def system(self) -> str:
        """Return the suite with the platform, as in `bookworm-arm64`: what base files and Debian lists are named by."""
        return f"{self.suite}{self.platform.suffix}"

    @property
    def source_built(self) -> tuple[str, ...]:
        """Return names of the packages that have no wheel."""
        return _names(self.settings.packages.source)

    @property
    def compiled(self) -> tuple[str, ...]:
        """Return names of the packages that are compiled against the framework."""
        return _names(self.settings.packages.compiled)

    @property
    def provided(self) -> dict[str, str]:
        """Map what the image has under another name to its requirement, as in `tensorflow-cpu==2.21.0`."""
        exact = {normal_name(requirement): requirement for requirement in self.framework_requirements}
        provides = self.settings.packages.provides
        return {normal_name(name): exact[normal_name(provider)] for name, provider in provides.items()}

    @property
    def missing(self) -> dict[str, str]:
        """Map what its lists have and the image has not to the reason."""
        settings = self.settings
        lists = (*settings.packages.lists, *settings.extras)
        listed = {normal_name(requirement) for name in lists for requirement in settings.lists.get(name, ())}
        return {name: why for name, why in settings.packages.missing.items() if why and normal_name(name) in listed}

    @property
    def dockerfile(self) -> str:
        """Return the path of the Dockerfile from the repository's root."""
        return f"docker/{self.header.framework}/Dockerfile"

    @property
    def lock_folder(self) -> str:
        """Return the path of the folder with the locks, which is the build's main context.

        If --set asks for other packages than the files do, or makes an image of another name, it is a folder of its
        own, which git ignores: the name may be another image's. A project's locks are in the project's folder.
        """
        folder = f"{LOCKS}/{self.id}" if self.base else f"docker/{self.header.framework}/locks/{self.id}"
        if self.plain is None or (self.plain.id, self.plain.lock_input()) == (self.id, self.lock_input()):
            return folder
        return f"{folder}-set-{self.lock_digest().removeprefix('sha256:')[:DIGITS]}"

    @property
    def indexed(self) -> tuple[IndexedPackages, ...]:
        """Return what comes from the buildspec's indexes, in their order."""
        glibc, machine = find_suite(self.suite).glibc, self.platform.machine
        return tuple(
            IndexedPackages(name, index.address, _names(index.packages), self.settings.python, glibc, machine)
            for name, index in self.settings.indexes.items()
        )

    def lock_input(self) -> str:
        """Return all that a lock is resolved from, as canonical text: equal text, equal lock.

        It has the packages of each index, not the address: an index may move, the hashes stay. It has no constraints:
        a lock that keeps to a new one need not be made again.
        """
        values: dict[str, object] = {
            "framework": self.framework_requirements,
            "training": self.training_requirements,
            "source": self.source_built,
            "compiled": self.compiled,
            "python": self.settings.python,
            "suite": self.suite,
            "platform": self.settings.platform,
        }
        if self.settings.indexes:
            values["indexes"] = {name: _names(index.packages) for name, index in self.settings.indexes.items()}
        if self.provided:
            values["provided"] = self.provided
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def lock_digest(self) -> str:
        """Return `sha256:...` of the lock input, as the first line of each lock file records it."""
        return f"sha256:{hashlib.sha256(self.lock_input().encode()).hexdigest()}"


def _names(requirements: Iterable[str]) -> tuple[str, ...]:
    return tuple(normal_name(requirement) for requirement in requirements)


def _changes_nothing(path: str) -> bool:
    """Tell whether a setting changes nothing in the image."""
    return (
        path.partition(".")[0] in ("repository", "budget", "platforms", "by_platform")
        or re.fullmatch(r"indexes\..*\.address", path) is not None
    )


@lru_cache(maxsize=4096)
def normal_name(requirement: str) -> str:
    """Return the package's name as indexes compare it: lower case, dashes, no extras and no version.

    The locks of all images name the same few hundred packages again and again.
    """
    return canonicalize_name(re.split(r"[\[=<>!~; @]", requirement, maxsplit=1)[0])


def list_support_warnings(variants: Sequence[Variant], today: date) -> list[str]:
    """Return a line for each image that is unsupported, or whose end of patch is less than NOTICE away, or past."""
    return [f"{variant.id}: {text}" for variant in variants if (text := _describe_support(variant.header, today))]


def require_supported(variants: Iterable[Variant]) -> None:
    """Raise ImageError for images that get no fixes any more: whoever pulls one would not know."""
    lines = [f"{v.id}: unsupported: {v.header.unsupported}" for v in variants if v.header.unsupported]
    if lines:
        raise ImageError("\n".join(lines), "push a newer version, or name these images and add --unsupported")


def _describe_support(header: Header, today: date) -> str:
    eop = header.eop
    if header.unsupported:
        return f"unsupported: {header.unsupported}: move to a newer version"
    if not eop:
        return ""
    left = (date.fromisoformat(eop) - today).days
    if left < 0:
        return f"end of patch was {eop}, {-left} days ago: move to a newer version"
    if left <= NOTICE.days:
        return f"end of patch is {eop}, in {left} days: plan the move to a newer version"
    return ""
