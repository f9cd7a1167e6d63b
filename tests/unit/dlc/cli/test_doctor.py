"""dlc doctor: the free disk is compared with what the images of the checkout need."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dlc.core.checkout import Tree
from dlc.engine.docker_client import Engine
from dlc.image_build import doctor, host_inputs
from dlc.plan.plan import make_plan
from dlc.plan.targets import read_uv_version
from harness.specimen import PYTORCH_PATH, changed, specimen


@pytest.fixture
def engine_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a private engine would be; it does not exist yet, its disk does."""
    monkeypatch.setenv("DLC_ENGINE_DIR", str(tmp_path / "not/yet/there"))
    return tmp_path


def sized(gigabytes: str) -> Tree:
    """A checkout whose images may take that much each, but for those that say their own."""
    tree = specimen()
    text = tree["buildspec/defaults.yml"].data.decode()
    return changed(tree, "buildspec/defaults.yml", re.sub(r'gigabytes: "[0-9.]+"', f'gigabytes: "{gigabytes}"', text))


def disk(gigabytes: str) -> doctor.Finding:
    tree = sized(gigabytes)
    return doctor._check_disk(None, make_plan(tree), tree)


def test_images_that_no_disk_holds_are_bad_with_a_remedy(engine_folder: Path) -> None:
    found = disk("1000000")
    assert found.level == "bad"
    assert f"free at {engine_folder}" in found.found
    assert "the 2 images that are not built need" in found.found
    assert "DLC_ENGINE_DIR" in found.remedy


def test_a_disk_that_holds_some_of_the_images_is_a_note(engine_folder: Path) -> None:
    tree = sized("1000000")
    own = "  - budget: {gigabytes: '0.1', why: small}\n    packages:"
    tree = changed(tree, PYTORCH_PATH, tree[PYTORCH_PATH].data.decode().replace("  - packages:", own))
    assert doctor._check_disk(None, make_plan(tree), tree).level == "note"


def test_without_a_checkout_what_images_take_is_not_known(engine_folder: Path) -> None:
    found = doctor._check_disk(None, None, {})
    assert found.level == "note"
    assert "no checkout" in found.found


def test_nothing_left_to_build_takes_nothing(engine_folder: Path) -> None:
    tree = specimen()
    nothing = make_plan(tree).without(make_plan(tree).selected)
    found = doctor._check_disk(None, nothing, tree)
    assert found.level == "ok"
    assert "the 0 images that are not built need up to 0 GB" in found.found


def test_a_bundle_without_certificates_is_bad_and_no_end_of_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CA_BUNDLE", "/no/such/file")
    found = doctor._run_check("CA bundle", doctor._check_certificates)
    assert (found.level, found.remedy) == ("bad", "unset DLC_CA_BUNDLE, or export DLC_CA_BUNDLE=FILE")


def test_an_engine_whose_folder_this_user_cannot_see_leaves_every_other_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    engine = Engine(None, "context", "28", containerd_store=False, data_root="/root/engine/data")
    monkeypatch.setattr(Path, "is_dir", refused)
    found = doctor._check_disk(engine, None, {})
    assert (found.level, found.found) == ("note", "/root/engine/data: this user cannot see it from here")


def test_a_check_that_this_host_does_not_let_us_make_is_a_finding() -> None:
    def refused() -> doctor.Finding:
        raise PermissionError(13, "Permission denied", "/proc/meminfo")

    found = doctor._run_check("memory", refused)
    assert (found.name, found.level) == ("memory", "note")
    assert found.found.startswith("could not be checked: [Errno 13] Permission denied")


def test_examining_reports_each_check_though_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> doctor.Finding:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "find_engine", lambda: None)
    monkeypatch.setattr(doctor, "_check_disk", refused)
    found = {finding.name: finding.level for finding in doctor.examine_host()}
    assert list(found) == ["engine", "platform", "base image", "disk", "memory", "CA bundle", "local wheels", "uv"]
    assert found["disk"] == "note"


def test_a_uv_that_makes_no_images_is_named_beside_the_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = specimen()
    wanted = read_uv_version(tree)
    monkeypatch.setattr(host_inputs, "version", lambda _: "0.13.9")
    found = doctor._check_uv(tree)
    assert (found.level, found.remedy) == ("note", f"pip install uv=={wanted}")
    assert found.found.startswith(f"uv 0.13.9 is installed; images are made with uv {wanted}")
    monkeypatch.setattr(host_inputs, "version", lambda _: wanted)
    assert doctor._check_uv(tree).level == "ok"
    assert doctor._check_uv({}).level == "note"


def test_every_finding_that_is_not_well_says_what_to_type() -> None:
    calls = [
        node for node in ast.walk(ast.parse(Path(str(doctor.__file__)).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
    ]  # fmt: skip
    assert len(calls) > 15
    unwell = [call for call in calls if ast.unparse(call.args[1]) not in ("'ok'", '"ok"')]
    assert [ast.unparse(call) for call in unwell if len(call.args) < 4] == []


def test_what_this_user_may_not_see_root_does() -> None:
    def refused() -> doctor.Finding:
        raise PermissionError(13, "Permission denied")

    found = doctor._run_check("disk", refused)
    assert (found.level, found.remedy) == ("note", "sudo dlc doctor")
