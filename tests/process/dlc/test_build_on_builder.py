"""dlc build --builder --push with a client that pushes for it: what is verified, and that nothing else moves a tag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hand_made_image import client

from dlc.__main__ import main
from dlc.core.errors import DlcError, EngineError, RegistryError, UsageError
from dlc.engine.pushed import read_record
from dlc.image_build.bake_file import HostInputs
from dlc.plan.plan import Plan, make_plan
from harness.installed import TOOLS
from harness.registry import Registry
from harness.specimen import TENSORFLOW_ID, TORCH_ID, specimen, write_tree

TESTS = Path(__file__).parents[2]
STEM = "2.13.0-training-cpu-py311-bookworm"
TORCH_REF = f"dlc/pytorch:{TORCH_ID.removeprefix('pytorch-')}"


@pytest.fixture
def place(registry: Registry, request: pytest.FixtureRequest) -> str:
    """A path that no other test has."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.lower())[-60:].strip("-")
    return f"{registry.host}/{name.replace('--', '-')}"


@pytest.fixture(autouse=True)
def host(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The specimen's folder, logged in, without an engine, and with a client that has the builder `far`."""
    write_tree(specimen(), tmp_path / "checkout")
    programs = tmp_path / "bin"
    programs.mkdir()
    script = f'#!/bin/sh\nexec {TOOLS}/python {TESTS}/process/dlc/builder_client.py "$@"\n'
    (programs / "docker").write_text(script)
    (programs / "docker").chmod(0o755)
    variables = {
        "PATH": f"{programs}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls"), "BAKED": str(tmp_path / "baked"),
        "PYTHONPATH": str(TESTS), "DLC_CACHE_DIR": str(tmp_path / "cache"),
        "PLATFORMS": "linux/amd64", "SOURCE_DATE_EPOCH": "1790000000", **registry.login(tmp_path / "docker"),
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("dlc.engine.builders.host_platform", lambda: "linux/amd64")
    monkeypatch.setattr("dlc.image_build.host_inputs.collect", collect)
    monkeypatch.chdir(tmp_path / "checkout")


def collect(plan: Plan, *_: object) -> HostInputs:
    """No file is made: the client looks at none."""
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    files = {target.dockerfile: Path("/nowhere", target.dockerfile) for target in plan.targets}
    return HostInputs({context: Path("/nowhere") for context in wanted}, files)


def build(place: str, *words: str) -> int:
    return main(["build", *words, "--builder", "far", "--push", place])


def bakes(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "baked"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tags(registry: Registry, place: str, framework: str = "pytorch") -> list[str]:
    return registry.tags(f"{place.partition('/')[2]}/{framework}")


def test_all_images_are_built_at_once_verified_and_tagged(
    registry: Registry, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(place, "*", "--json", "--cache-to", "type=registry,ref=r/c:{image}") == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {TORCH_ID, TENSORFLOW_ID}
    [baked] = bakes(tmp_path)
    assert len(baked["group"]["default"]["targets"]) == 2
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "buildx inspect --bootstrap far"
    assert "--builder far --metadata-file" in calls[-1]
    row = rows[TORCH_ID]
    assert row["built"]
    assert row["tags"][-1] == STEM
    assert tags(registry, place) == sorted(row["tags"])
    image = client(registry, f"{place.partition('/')[2]}/pytorch").manifest(STEM)
    assert image
    assert image.digest == row["digest"]
    key = make_plan(specimen()).target(TORCH_ID).key
    assert row["tags"][0] == f"{STEM}-{key[:12]}"
    record = read_record(TORCH_REF)
    assert record
    assert (record.name, record.key) == (f"{place}/pytorch@{image.digest}", key)


def test_what_the_registry_has_is_not_built_again(
    registry: Registry, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(place, TORCH_ID) == 0
    said = capsys.readouterr()
    assert f"{TORCH_ID}  built" in said.out
    assert f"  builds {TORCH_ID}: not in {place}/pytorch yet; at most " in said.err
    (registry.repository(f"{place.partition('/')[2]}/pytorch") / "_manifests/tags" / STEM / "current/link").unlink()
    assert build(place, TORCH_ID, "--dry-run") == 0
    assert f"{TORCH_ID}  is there" in capsys.readouterr().out
    assert build(place, TORCH_ID) == 0
    assert f"{TORCH_ID}  was there already" in capsys.readouterr().out
    assert len(bakes(tmp_path)) == 1
    assert STEM in tags(registry, place)


def test_a_dry_run_builds_nothing(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(place, TORCH_ID, "--dry-run") == 0
    assert f"{TORCH_ID}  would be built" in capsys.readouterr().out
    assert bakes(tmp_path) == []


def test_an_engine_as_builder_pushes_under_a_tag_that_nobody_reads(
    registry: Registry, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVER", "docker")
    assert build(place, TORCH_ID) == 0
    found = tags(registry, place)
    assert len(found) == 4
    [unverified] = [tag for tag in found if tag.endswith("-unverified")]
    assert unverified.removesuffix("-unverified") in found


@pytest.mark.parametrize(
    ("harm", "error", "said"),
    [
        ("dies", EngineError, "the builder or engine has gone away"),
        ("another image", RegistryError, "expected org.dlc.content-key="),
        ("another digest", RegistryError, "found no manifest"),
    ],
)
def test_a_builder_that_dies_or_pushes_something_else_is_one_error_and_moves_no_tag(
    harm: str, error: type[DlcError], said: str, registry: Registry, place: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HARM", harm)
    assert build(place, "*") == error.exit_code
    err = capsys.readouterr().err
    assert said in err
    assert "no tag was moved" in err
    assert "Traceback" not in err
    assert tags(registry, place) == tags(registry, place, "tensorflow") == []
    assert read_record(TORCH_REF) is None
    monkeypatch.delenv("HARM")
    assert build(place, "*") == 0
    assert STEM in tags(registry, place)


def test_a_registry_that_is_read_only_is_told_before_the_build(tmp_path: Path) -> None:
    other = Registry(tmp_path / "other")
    other.readonly = True
    other.start()
    try:
        other.login(tmp_path / "docker")
        assert build(f"{other.host}/team", TORCH_ID) == RegistryError.exit_code
    finally:
        other.kill()
    assert bakes(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("--builder", "other", "--push", "r.example/team"), EngineError, 'no builder "other" found'),
        (("--push", "r.example/team"), UsageError, "expected --builder NAME, found none"),
        (("--builder", "far", "--push", "team"), UsageError, "--push team: expected REGISTRY/REPO"),
        (("--builder", "other"), EngineError, 'no builder "other" found'),
        (("--builder", "down"), EngineError, "expected BuildKit to answer at tcp://192.0.2.1:1234, found: context"),
        (("--builder", ""), EngineError, "expected the name of a builder"),
        (("--builder", "far", "--push", ""), UsageError, "expected REGISTRY/REPO"),
    ],
)
def test_a_wrong_builder_or_place_is_one_error(
    words: tuple[str, ...], error: type[DlcError], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", TORCH_ID, *words]) == error.exit_code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("dlc: ") == 1


def test_a_builder_of_another_platform_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLATFORMS", "linux/arm64, linux/arm/v7")
    assert build(place, TORCH_ID) == EngineError.exit_code
    assert "expected a builder for linux/amd64, found one for linux/arm64, linux/arm/v7" in capsys.readouterr().err
