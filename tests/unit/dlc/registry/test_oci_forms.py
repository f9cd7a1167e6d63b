"""The forms by which tests judge what is pushed: they take what is right, and see each thing that is wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dlc.registry.client.repository import INDEX, KINDS, Manifest
from dlc.registry.referrers import SPDX, describe_referrer, make_referrer
from harness import oci_forms
from harness.oci_forms import find_faults

IMAGE = Manifest(b'{"schemaVersion":2}', KINDS[0])
REFERRER = make_referrer(IMAGE, SPDX, b"{}", {"org.example": "a"})
DOCUMENT: dict[str, Any] = dict(REFERRER.content)
LIST: dict[str, Any] = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [dict(describe_referrer(REFERRER))]}
CONFIG: dict[str, Any] = {
    "created": "2026-11-28T12:00:00Z", "architecture": "amd64", "os": "linux", "config": {"Labels": {"a": "b"}},
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{'1' * 64}"]},
}  # fmt: skip


def test_what_is_right_has_no_fault() -> None:
    assert find_faults(DOCUMENT, oci_forms.MANIFEST) == []
    assert find_faults(LIST, oci_forms.REFERRERS) == []
    assert find_faults(CONFIG, oci_forms.CONFIG) == []


MISTAKES = {
    "another version": ("MANIFEST", DOCUMENT, ("schemaVersion",), 1),
    "a kind that is none": ("MANIFEST", DOCUMENT, ("artifactType",), "spdx"),
    "no kind of an empty configuration": ("MANIFEST", DOCUMENT, ("artifactType",), None),
    "no layers": ("MANIFEST", DOCUMENT, ("layers",), []),
    "a cut digest": ("MANIFEST", DOCUMENT, ("subject", "digest"), "sha256:12"),
    "a size in words": ("MANIFEST", DOCUMENT, ("layers", 0, "size"), "2"),
    "a subject without a size": ("MANIFEST", DOCUMENT, ("subject", "size"), None),
    "an annotation that is no text": ("MANIFEST", DOCUMENT, ("annotations", "org.example"), 1),
    "a list of another kind": ("REFERRERS", LIST, ("mediaType",), KINDS[0]),
    "a document without its kind": ("REFERRERS", LIST, ("manifests", 0, "artifactType"), None),
    "no system": ("CONFIG", CONFIG, ("os",), None),
    "a time without a zone": ("CONFIG", CONFIG, ("created",), "2026-11-28T12:00:00"),
    "a label that is no text": ("CONFIG", CONFIG, ("config", "Labels", "a"), 1),
    "a diff id that is none": ("CONFIG", CONFIG, ("rootfs", "diff_ids", 0), "1"),
}


@pytest.mark.parametrize(("form", "value", "path", "wrong"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_seen(form: str, value: dict[str, Any], path: tuple[Any, ...], wrong: object) -> None:
    """None stands for what is left out."""
    changed = copy.deepcopy(value)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    if wrong is None:
        del place[path[-1]]
    else:
        place[path[-1]] = wrong
    assert find_faults(changed, getattr(oci_forms, form)) != []
