"""The tags of an image in a registry: which a push gives it, how they are told apart, and how one is moved.

Of an image's tags `2.13.0-training-cpu-py311-bookworm` moves with every push. With `-20261120` at its end it names the
day of the commit, with `-0123456789ab` the first digits of the content key, which differ for other sources. An image of
`--set` keeps the `-set-0123abcd` of its reference in each of them: it never takes the plain image's tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from dlc.core.errors import ImageError
from dlc.core.labels import CREATED, FRAMEWORK_VERSION, ID, KEY, OS
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.verify import MismatchError

KEY_DIGITS = 12
# By the distribution specification.
LONGEST_CHARACTERS = 128
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# At the end of a reference (`Variant.suffix`) and of a stem.
OF_SET = re.compile(r"-set-[0-9a-f]+(?=(?:-[0-9a-f]+)?$)")
# The stem is what is before the content key, or before the day.
OF_CONTENT = re.compile(rf"(.+)-([0-9a-f]{{{KEY_DIGITS}}})")
OF_DAY = re.compile(r"(.+)-(\d{8})")
OURS = "dlc build GLOB: dlc's own images have them"


def make_tags(ref: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tag with the content key, then the day, then the one that moves: they are set in this order.

    `ref` and `labels` are the image's. Raises ImageError when one is missing that dlc sets.
    """
    try:
        _framework, _series, job, device, python, *flavor = _require_label(ref, labels, ID).split("-")
        day = datetime.fromisoformat(_require_label(ref, labels, CREATED)).strftime("%Y%m%d")
    except ValueError:
        raise ImageError(f"{ref}: expected {ID} and {CREATED} as dlc sets them, found other labels", OURS) from None
    # The device says `+cpu` already.
    version = _require_label(ref, labels, FRAMEWORK_VERSION).partition("+")[0]
    system = _name_system(_require_label(ref, labels, OS))
    key = _require_label(ref, labels, KEY)[:KEY_DIGITS]
    stem = "-".join([version, job, device, python, *flavor, system])
    suffix = found[0] if (found := OF_SET.search(ref)) else ""
    stem = stem[: LONGEST_CHARACTERS - 1 - KEY_DIGITS - len(suffix)].rstrip("-.") + suffix
    if not TAG.fullmatch(f"{stem}-{key}"):
        raise ImageError(f"{ref}: expected labels that make a tag, found {stem}-{key}", OURS)
    return f"{stem}-{key}", f"{stem}-{day}", stem


def _require_label(ref: str, labels: Mapping[str, str], name: str) -> str:
    if not labels.get(name):
        raise ImageError(f"{ref}: expected the label {name}, found none", OURS)
    return labels[name]


def _name_system(text: str) -> str:
    """Return `bookworm` for our own base, `ubuntu-24.04` for the user's `registry.example/ubuntu:24.04`."""
    name = text.partition("@")[0].rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9._]+", "-", name.removeprefix("debian-")).strip("-.")


def move_tag(repository: Repository, tag: str, image: Manifest) -> None:
    """Move a tag to the image, and check that it was moved."""
    there = repository.any_manifest(tag)
    if there is not None and there.digest == image.digest:
        return
    repository.put_manifest(tag, image)
    moved = repository.any_manifest(tag)
    if moved is None or moved.digest != image.digest:
        raise MismatchError(f"{repository.name}:{tag}", image.digest, moved.digest if moved else "no manifest")
