"""The tags of a pushed image, made from its labels. Pure.

`2.13.0-training-cpu-py311-bookworm` moves with every push. With `-20261120` at its end it names the day of the commit,
with `-0123456789ab` the first digits of the content key, which differ for other sources.
An image of `--set` keeps the `-set-0123abcd` of its reference in each of them: it never takes the plain image's tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from dlc.core.errors import ImageError
from dlc.core.labels import CREATED, FRAMEWORK_VERSION, ID, KEY, OS

KEY_DIGITS = 12
LONGEST = 128  # characters of a tag, by the distribution specification
OF_SET = re.compile(r"-set-[0-9a-f]+$")  # what Variant.suffix puts behind a reference


def tags(ref: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Content key first, then the day, then the one that moves: the order in which they are set.

    `ref` and `labels` are the image's. Raises ImageError when one is missing that dlc sets.
    """
    _framework, _series, job, device, python, *flavor = _label(ref, labels, ID).split("-")
    version = _label(ref, labels, FRAMEWORK_VERSION).partition("+")[0]  # `+cpu`: the device has it
    system = _system(_label(ref, labels, OS))
    day = datetime.fromisoformat(_label(ref, labels, CREATED)).strftime("%Y%m%d")
    key = _label(ref, labels, KEY)[:KEY_DIGITS]
    stem = "-".join([version, job, device, python, *flavor, system])
    suffix = found[0] if (found := OF_SET.search(ref)) else ""
    stem = stem[: LONGEST - 1 - KEY_DIGITS - len(suffix)].rstrip("-.") + suffix
    return f"{stem}-{key}", f"{stem}-{day}", stem


def _label(ref: str, labels: Mapping[str, str], name: str) -> str:
    if not labels.get(name):
        raise ImageError(f"{ref}: expected the label {name}, found none", "dlc build GLOB: dlc's own images have it")
    return labels[name]


def _system(text: str) -> str:
    """`bookworm` for our own base, `ubuntu-24.04` for one that the user named as `registry.example/ubuntu:24.04`."""
    name = text.partition("@")[0].rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9._]+", "-", name.removeprefix("debian-")).strip("-.")
