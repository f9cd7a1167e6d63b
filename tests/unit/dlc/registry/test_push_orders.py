"""registry.run, push.tags, push.verify: what is pushed under which names, and what counts as the built image."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlc.cli.push import as_text
from dlc.core.errors import DiskError, ImageError, ProcessError, RegistryError
from dlc.core.labels import KEY as KEY_LABEL
from dlc.engine.docker_client import Engine
from dlc.inspection.archive import save_image
from dlc.plan.plan import make_plan
from dlc.proof.statement import PROVENANCE, SCAN, SIGNATURE
from dlc.registry.push import Pushed, make_orders
from dlc.registry.referrers import Document
from dlc.registry.tags import make_tags
from dlc.registry.verify import MismatchError, find_difference, require_same
from harness.specimen import TENSORFLOW_ID, TORCH_ID, specimen

LABELS = {
    "org.dlc.id": TORCH_ID,
    "org.dlc.framework": "pytorch",
    "org.dlc.framework.version": "2.13.0+cpu",
    "org.dlc.os": "debian-bookworm",
    "org.opencontainers.image.created": "2026-11-20T12:00:00Z",
    KEY_LABEL: "0123456789abcdef" * 4,
}
DIFF_IDS = [f"sha256:{digit * 64}" for digit in "12"]
CONFIG: Mapping[str, Any] = {
    "created": "2026-11-20T12:00:00Z",
    "config": {"Env": ["PATH=/opt/venv/bin"], "Entrypoint": ["tini"], "WorkingDir": "/", "Labels": LABELS},
    "rootfs": {"type": "layers", "diff_ids": DIFF_IDS},
}
INSPECTED: Mapping[str, Any] = {
    "Created": "2026-11-20T12:00:00Z",
    "Config": {**CONFIG["config"], "Cmd": None, "User": "", "Hostname": ""},
    "RootFS": {"Type": "layers", "Layers": DIFF_IDS},
}


def test_tags_name_key_then_day_then_what_moves() -> None:
    stem = "2.13.0-training-cpu-py311-bookworm"
    assert make_tags("dlc/pytorch:x", LABELS) == (f"{stem}-0123456789ab", f"{stem}-20261120", stem)


def test_tags_of_a_flavor_are_its_own() -> None:
    flavored = make_tags("dlc/pytorch:x-xla", {**LABELS, "org.dlc.id": f"{TORCH_ID}-xla"})
    assert flavored[2] == "2.13.0-training-cpu-py311-xla-bookworm"


def test_an_image_of_set_never_takes_the_tags_of_the_plain_image() -> None:
    """Its labels may be the same: labels, Debian packages and the EFA software are in no tag."""
    plain, changed, other = (
        make_plan(specimen(), [TORCH_ID], sets) for sets in ([], ["labels.team=vision"], ["labels.team=audio"])
    )
    found = [make_tags(plan.refs[0], LABELS) for plan in (plain, changed, other)]
    assert len({tag for names in found for tag in names}) == 9
    suffix = changed.refs[0].removeprefix(plain.refs[0])
    assert found[1] == tuple(f"{found[0][2]}{suffix}{end}" for end in ("-0123456789ab", "-20261120", ""))
    long = make_tags(changed.refs[0], {**LABELS, "org.dlc.os": "base" * 60})
    assert [(suffix in tag, len(tag) <= 128) for tag in long] == [(True, True)] * 3


@pytest.mark.parametrize(
    ("system", "part"),
    [
        ("debian-trixie", "trixie"),
        ("debian:12", "debian-12"),
        ("ubuntu:24.04", "ubuntu-24.04"),
        ("registry.example:5000/base/Debian:12@sha256:ab", "debian-12"),
    ],
)
def test_base_that_the_user_named_is_in_the_tag_without_its_registry(system: str, part: str) -> None:
    assert make_tags("r", {**LABELS, "org.dlc.os": system})[2] == f"2.13.0-training-cpu-py311-{part}"


def test_tags_of_a_very_long_base_name_keep_the_content_key_and_a_legal_length() -> None:
    found = make_tags("r", {**LABELS, "org.dlc.os": "base" * 60})
    assert found[0].endswith("-0123456789ab")
    assert [len(tag) <= 128 for tag in found] == [True] * 3


@pytest.mark.parametrize(
    "wrong",
    [{"org.dlc.id": "pytorch"}, {"org.opencontainers.image.created": "yesterday"}, {KEY_LABEL: "a key"},
     {"org.dlc.framework.version": "2.13/../x"}],
)  # fmt: skip
def test_labels_that_dlc_does_not_set_make_no_tag(wrong: dict[str, str]) -> None:
    """An image of a registry may have any."""
    with pytest.raises(ImageError, match="dlc/pytorch:x: expected "):
        make_tags("dlc/pytorch:x", {**LABELS, **wrong})


@pytest.mark.parametrize("name", [name for name in LABELS if name != "org.dlc.framework"])
def test_image_without_a_label_that_its_tags_come_from_is_named(name: str) -> None:
    with pytest.raises(ImageError, match=rf"dlc/pytorch:x: expected the label {name}"):
        make_tags("dlc/pytorch:x", {key: value for key, value in LABELS.items() if key != name})


def test_order_takes_framework_and_tags_from_the_built_image() -> None:
    plan = make_plan(specimen(), [TORCH_ID])
    [ref] = plan.refs
    said = {**LABELS, **plan.target(TORCH_ID).labels}
    keys = {ref: plan.target(TORCH_ID).key}
    [order] = make_orders(plan, {ref: {**INSPECTED, "Config": {"Labels": said}}}, keys)
    assert (order.id, order.ref, order.framework) == (TORCH_ID, ref, "pytorch")
    assert order.tags == make_tags(ref, said)


@pytest.mark.parametrize("name", ["org.dlc.id", "org.dlc.framework.version", "org.dlc.os", "org.dlc.platform"])
def test_an_image_of_the_right_key_with_a_label_of_another_image_is_not_pushed(name: str) -> None:
    plan = make_plan(specimen(), [TORCH_ID])
    [ref] = plan.refs
    said = {**LABELS, **plan.target(TORCH_ID).labels, name: "another"}
    with pytest.raises(ImageError, match=f"expected the label {name}=.*, found another"):
        make_orders(plan, {ref: {"Config": {"Labels": said}}}, {ref: plan.target(TORCH_ID).key})


def test_images_that_are_missing_or_stale_are_all_named_with_what_to_build() -> None:
    plan = make_plan(specimen())
    torch = plan.target(TORCH_ID).tags[0]
    with pytest.raises(ImageError) as caught:
        make_orders(plan, {torch: INSPECTED}, {torch: "older"})
    assert caught.value.exit_code == ImageError.exit_code
    assert f"{TORCH_ID}: expected an image built from these sources, found: {torch} was built from older" in str(
        caught.value
    )
    assert f"{TENSORFLOW_ID}: " in caught.value.message
    assert caught.value.remedy == f"dlc build {TORCH_ID} {TENSORFLOW_ID}"
    with pytest.raises(ImageError) as caught:
        make_orders(make_plan(specimen(), [TORCH_ID], ["labels.a=b c"]), {}, {}, ["labels.a=b c"])
    assert caught.value.remedy == f"dlc build {TORCH_ID} --set 'labels.a=b c'"


def test_image_in_a_registry_is_the_built_one_whatever_docker_adds_to_its_answer() -> None:
    assert find_difference(INSPECTED, CONFIG) == ""
    require_same(INSPECTED, "team/pytorch", 2, json.dumps(CONFIG).encode())


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"rootfs": {"diff_ids": DIFF_IDS[::-1]}}, "its layers"),
        ({"rootfs": {"diff_ids": DIFF_IDS[:1]}}, "its layers"),
        ({"created": "2026-11-21T00:00:00Z"}, "its date"),
        ({"config": {**CONFIG["config"], "Env": []}}, "its Env"),
        ({"config": {**CONFIG["config"], "Entrypoint": ["sh"]}}, "its Entrypoint"),
        ({"config": {**CONFIG["config"], "User": "nobody"}}, "its User"),
        ({"config": {**CONFIG["config"], "Labels": {}}}, "its Labels"),
    ],
)
def test_any_difference_from_the_built_image_is_found_and_named(changed: Mapping[str, Any], what: str) -> None:
    assert what in find_difference(INSPECTED, {**CONFIG, **changed})


def test_manifest_with_another_number_of_layers_is_no_image_of_this_configuration() -> None:
    with pytest.raises(MismatchError, match="expected a layer for each of 2 diff ids, found 3") as caught:
        require_same(INSPECTED, "team/pytorch", 3, json.dumps(CONFIG).encode())
    assert caught.value.exit_code == RegistryError.exit_code


@pytest.mark.parametrize(
    ("place", "words"), [("{folder}/.docker_temp_1", "TMPDIR"), ("/engine/data", "docker system df")]
)
def test_full_disk_is_told_with_what_to_free(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*argv: str, **_: object) -> None:
        where = place.format(folder=tmp_path)
        raise ProcessError(f"docker {shlex.join(argv)}: exit code 1\nwrite {where}: no space left on device")

    monkeypatch.setattr("dlc.engine.docker_client.run_docker", fail)
    with pytest.raises(DiskError) as caught:
        save_image(Engine(None, "context", "26", True), tmp_path / "image.tar", "dlc/pytorch:x")
    assert words in caught.value.remedy


@pytest.mark.parametrize("config", [b"[]", b"{}", b"<html>", b'{"rootfs": null}', b'{"rootfs": {"diff_ids": []}}'])
def test_configuration_that_is_none_is_not_the_built_image(config: bytes) -> None:
    with pytest.raises(MismatchError):
        require_same(INSPECTED, "team/pytorch", 2, config)


def test_report_names_the_digest_and_every_tag_with_the_registry() -> None:
    row = Pushed("id", "team/pytorch", "sha256:ab", "sha256:cd", ("1-key", "1"), 2_000_000, 3.2)
    assert as_text(row, "registry.example").splitlines() == [
        "id  2.0 MB sent in 3 s",
        "  registry.example/team/pytorch@sha256:ab",
        "  registry.example/team/pytorch@sha256:cd  bill of materials",
        "  registry.example/team/pytorch:1-key",
        "  registry.example/team/pytorch:1",
    ]


def test_report_of_a_signed_push_lists_what_was_attached_to_the_image_and_to_its_index_and_what_is_missing() -> None:
    attached = (
        Document("sha256:01", PROVENANCE, "sha256:ab", was_there=True),
        Document("sha256:02", SCAN, "sha256:ab", was_there=False),
        Document("sha256:03", SIGNATURE, "sha256:1d", was_there=False),
    )
    row = Pushed("id", "team/pytorch", "sha256:ab", "sha256:cd", (), 0, 3.2, attached)
    assert as_text(row, "registry.example").splitlines()[3:] == [
        "  signed and attached:",
        "    provenance  sha256:01  was there already",
        "    scan        sha256:02",
        "    signature   sha256:03  of the index sha256:1d",
        "  not attached: tests (dlc test did not test this image on this machine)",
    ]
