"""What dlc build says before it starts: which images, why, how large they get, and how long the last build took."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dlc.buildspec.variant import Variant
from dlc.core.atomic_files import replace_text
from dlc.plan.plan import Decision

FOLDER = "builds"
MB = 10**6


@dataclass(frozen=True)
class LastBuild:
    """The last build of an image on this host."""

    # Of the whole build, be it of several images.
    seconds: float
    # How many images were built together.
    images: int
    # Bytes of its layers, unpacked.
    size: int


def record_build(cache: Path, ref: str, build: LastBuild) -> None:
    """Keep what a build took, for the line before the next one."""
    replace_text(_record_path(cache, ref), json.dumps({"ref": ref, **asdict(build)}) + "\n")


def read_build(cache: Path, ref: str) -> LastBuild | None:
    """Return what the last build of an image took; None if nothing, or nothing readable, was kept."""
    try:
        found = json.loads(_record_path(cache, ref).read_text())
        return LastBuild(float(found["seconds"]), int(found["images"]), int(found["size"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _record_path(cache: Path, ref: str) -> Path:
    name = f"{ref.rpartition('/')[2].replace(':', '-')}-{hashlib.sha256(ref.encode()).hexdigest()[:12]}"
    return cache / FOLDER / f"{name}.json"


def announce(
    decisions: Sequence[Decision], variants: Sequence[Variant], last: Mapping[str, LastBuild | None]
) -> list[str]:
    """Return a line for each image that will be built. `last`: the reference of an image -> its last build. Pure."""
    by_id = {variant.id: variant for variant in variants}
    return [
        f"builds {each.id}: {each.why}; {_describe_last(by_id[each.id], last.get(by_id[each.id].ref))}"
        for each in decisions if each.build and each.id in by_id
    ]  # fmt: skip


def _describe_last(variant: Variant, last: LastBuild | None) -> str:
    if last is None:
        return f"at most {variant.settings.budget.bytes / MB:.0f} MB; time unknown, not built on this host before"
    others = f" with {last.images - 1} more" if last.images > 1 else ""
    return f"about {last.size / MB:.0f} MB; last time {last.seconds:.0f} s{others}"
