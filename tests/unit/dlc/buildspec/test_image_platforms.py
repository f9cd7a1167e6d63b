"""Platforms of an image: selection, names, locks, plan, what `dlc list` says, and a host that cannot run them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.buildspec.locks import resolve
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.platforms import NOT_ASKED, name_foreign
from dlc.buildspec.project import list_own_images
from dlc.cli.list import as_json, describe_planned, note_platforms
from dlc.cli.shell import make_words
from dlc.core import labels, platforms
from dlc.core.checkout import PROJECT, SourceFile, Tree
from dlc.core.errors import HostError, LockError, SelectorError, SpecError
from dlc.core.platforms import ANY_PLATFORM, PLATFORMS, require_runs_here, runs_here, split_suffix
from dlc.debian import suites
from dlc.engine.builders import Builder
from dlc.engine.docker_client import Engine
from dlc.image_build import wheels
from dlc.image_build.wheels import fits_machine
from dlc.places.local.containers import make_container
from dlc.places.local.job import Group, Job
from dlc.plan.plan import make_plan
from harness.specimen import COMPAT, TENSORFLOW_ID, TORCH_ID, changed, locked, unlocked

ARM = "linux/arm64"
ARM_ID = f"{TENSORFLOW_ID}-arm64"
BOTH = """\
framework: tensorflow
version: "2.21"
job: training
variants:
  - platforms: [linux/amd64, linux/arm64]
    by_platform:
      linux/amd64: {packages: {framework: [tensorflow-cpu==2.21.0]}}
      linux/arm64: {packages: {framework: [tensorflow==2.21.0]}}
"""
RULE = """\
platforms:
  - platform: linux/arm64
    when: {framework: pytorch, version: ">=2.13"}
    why: nobody has its wheels
"""
PATH = "buildspec/tensorflow/2.21-training.yml"
REGISTERED = "enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: {}\noffset 0\nmagic 7f454c46\n"


def of_both(text: str = BOTH) -> Tree:
    tree = changed(unlocked(), PATH, text)
    tree = changed(tree, "docker/debian/bookworm-arm64/versions.txt", "libc6=2.36-9\n")
    return changed(tree, "buildspec/compat.yml", COMPAT + RULE)


def test_a_glob_selects_one_platform_and_an_identifier_any() -> None:
    tree = of_both()

    def chosen(*globs: str, platform: str = "linux/amd64") -> list[str]:
        return [variant.id for variant in load_variants(tree, globs, platform=platform)]

    assert chosen() == chosen("*") == [TORCH_ID, TENSORFLOW_ID]
    assert chosen(platform=ARM) == chosen("tensorflow-*", platform=ARM) == [ARM_ID]
    assert chosen(ARM_ID) == [ARM_ID]
    assert chosen(TENSORFLOW_ID, platform=ARM) == [TENSORFLOW_ID]
    assert chosen(platform=ANY_PLATFORM) == [TORCH_ID, TENSORFLOW_ID, ARM_ID]


def test_a_glob_that_only_another_platform_has_says_so() -> None:
    with pytest.raises(SelectorError, match=r"^pytorch-\*: no such image of this platform; --platform chooses"):
        load_variants(of_both(), ["pytorch-*"], platform=ARM)


def test_names_and_settings_are_those_of_the_platform() -> None:
    first, second = load_variants(of_both(), [TENSORFLOW_ID, ARM_ID])
    assert (first.system, second.system) == ("bookworm", "bookworm-arm64")
    assert second.ref == f"{first.ref}-arm64"
    assert second.lock_folder == f"{first.lock_folder}-arm64"
    assert first.family == second.family == TENSORFLOW_ID
    assert (first.framework_requirements, second.framework_requirements) == (
        ("tensorflow-cpu==2.21.0",), ("tensorflow==2.21.0",)
    )  # fmt: skip
    assert (name_foreign(first), name_foreign(second), name_foreign(None)) == ("", ARM, "")


def test_an_image_of_set_for_another_platform_has_a_lock_of_its_own() -> None:
    [variant] = load_variants(of_both(), [TORCH_ID], [f"platform={ARM}"])
    assert variant.id == f"{TORCH_ID}-arm64"
    assert "-arm64-set-" in variant.lock_folder


def test_platforms_of_the_buildspec_leave_the_first_platforms_key_and_lock() -> None:
    """Whoever adds a platform builds nothing anew."""
    plain, both = locked(unlocked()), locked(of_both())
    before, after = make_plan(plain), make_plan(both)
    assert {target.id: target.key for target in before.targets} == {target.id: target.key for target in after.targets}
    [old], [new] = load_variants(plain, [TENSORFLOW_ID]), load_variants(both, [TENSORFLOW_ID])
    assert (old.lock_digest(), old.suffix, old.ref) == (new.lock_digest(), new.suffix, new.ref)


def test_every_target_of_the_other_platform_is_of_it_and_shares_none() -> None:
    plan = make_plan(locked(of_both()), [TENSORFLOW_ID, ARM_ID])
    arm = [target for target in plan.targets if target.platform == ARM]
    assert plan.platforms == ("linux/amd64", ARM)
    assert {target.id for target in arm} == plan.ancestry(ARM_ID)
    assert {"rootfs-bookworm-arm64", "tools-rootfs-bookworm-arm64"} < {target.id for target in arm}
    assert not {target.key for target in arm} & {target.key for target in plan.targets if target.platform != ARM}
    image = plan.target(ARM_ID)
    assert image.labels[labels.PLATFORM] == ARM
    assert image.labels[labels.TITLE].endswith(", arm64")
    uv = plan.target(f"{ARM_ID}/tools").contexts.get("uv")
    assert uv is None or str(uv).startswith("host:uv-arm64==")


def test_a_lock_is_resolved_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = load_variants(of_both(), [TENSORFLOW_ID, ARM_ID])
    words = [" ".join(resolve._make_command(resolve.make_request(each))) for each in (first, second)]
    assert "--python-platform x86_64-manylinux_2_36" in words[0]
    assert "--python-platform aarch64-manylinux_2_36" in words[1]
    monkeypatch.setattr(resolve, "resolve_packages", lambda *_: "")
    for each in (first, second):
        text = resolve.make_lock(resolve.make_request(each))["framework.txt"]
        assert text.splitlines()[1] == f"# dlc-lock-platform: {each.settings.platform}"


def test_list_says_which_platforms_and_why_not() -> None:
    torch, tensorflow, arm = load_variants(of_both(), platform=ANY_PLATFORM)
    assert torch.platforms == {"linux/amd64": "", ARM: "nobody has its wheels"}
    tree = locked(of_both())
    assert [describe_planned(each, tree)["platforms"] for each in (torch, tensorflow, arm)] == [
        "amd64", "amd64, arm64", "amd64, arm64"
    ]  # fmt: skip
    assert note_platforms([torch, tensorflow]) == [f"no {ARM} for {TORCH_ID}: nobody has its wheels"]
    assert as_json({}, None, torch, None)["platforms"] == {"linux/amd64": True, ARM: "nobody has its wheels"}


def test_what_no_rule_forbids_and_nobody_asks_for_is_said_to_be_that() -> None:
    [torch] = load_variants(unlocked(), [TORCH_ID])
    assert torch.platforms[ARM] == NOT_ASKED


def test_a_platform_that_a_rule_forbids_is_refused_with_the_reason_at_its_place() -> None:
    text = BOTH.replace("tensorflow", "pytorch").replace("2.21.0", "2.13.0").replace("2.21", "2.13")
    text = text.replace("pytorch-cpu==", "torch==").replace("pytorch==", "torch==")
    tree = changed(of_both(), "buildspec/pytorch/2.13-training.yml", text)
    with pytest.raises(SpecError) as caught:
        load_variants(tree)
    assert f"2.13-training.yml:5:30: platforms: expected no {ARM}, because nobody has its wheels" in str(caught.value)


def test_a_wrong_platform_and_a_wrong_setting_of_one_are_found_where_they_stand() -> None:
    for wrong, found in (
        ("linux/arm64]", "linux/riscv64]"),
        ("by_platform:", "by_platform: {linux/s390x: {}}\n    x:"),
    ):
        with pytest.raises(SpecError, match=r"2\.21-training\.yml:"):
            load_variants(of_both(BOTH.replace(wrong, found)))
    with pytest.raises(SpecError, match=r"2.21-training.yml:8:.*unknown key 'pakages'"):
        load_variants(of_both(BOTH.replace("arm64: {packages", "arm64: {pakages")))


def test_base_files_are_made_for_the_platform() -> None:
    words = suites.mmdebstrap_command("bookworm-arm64")
    assert words[-1] == "bookworm"
    assert "--architectures=arm64" in words
    assert "--architectures" not in " ".join(suites.mmdebstrap_command("bookworm"))
    assert suites.versions_path("trixie-arm64") == "docker/debian/trixie-arm64/versions.txt"
    assert suites.is_system("bookworm-arm64")
    assert not suites.is_system("sarge-arm64")
    with pytest.raises(LockError, match="suite sarge"):
        suites.mmdebstrap_command("sarge-arm64")


def test_suffixes_are_split() -> None:
    assert split_suffix("uv-arm64") == ("uv", PLATFORMS[ARM])
    assert split_suffix("uv") == ("uv", PLATFORMS["linux/amd64"])


@pytest.mark.parametrize(
    ("name", "text", "runs"),
    [
        ("qemu-aarch64", REGISTERED.format("OCF"), True),
        ("qemu-aarch64", REGISTERED.format("OC"), False),  # containers would not find the interpreter
        ("qemu-aarch64", REGISTERED.format("OCF").replace("enabled", "disabled"), False),
        ("qemu-riscv64", REGISTERED.format("OCF"), False),
    ],
)
def test_another_platform_runs_where_the_kernel_has_an_interpreter_for_containers(
    name: str, text: str, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platforms, "host_platform", lambda: "linux/amd64")
    (tmp_path / name).write_text(text)
    assert runs_here(ARM, tmp_path) is runs
    assert runs_here("linux/amd64", tmp_path)


def test_a_host_without_qemu_is_one_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platforms, "host_platform", lambda: "linux/amd64")
    monkeypatch.setattr(platforms, "runs_here", lambda wanted: runs_here(wanted, tmp_path / "none"))
    engine = Engine(None, "context", "26", containerd_store=True, platform="linux/amd64")
    refusals: list[Callable[[], None]] = [
        lambda: require_runs_here(ARM), lambda: engine.require_platform(ARM),
        lambda: Builder("far", "remote", ("linux/amd64", ARM)).require_platform(ARM),
    ]  # fmt: skip
    for refuse in refusals:
        with pytest.raises(HostError, match=r"^this host: expected linux/arm64, or QEMU") as caught:
            refuse()
        assert caught.value.exit_code == 21
        assert "apt-get install qemu-user-static" in caught.value.remedy
    engine.require_platform()


def test_the_plan_of_both_is_json() -> None:
    found = json.loads(json.dumps(make_plan(locked(of_both()), [ARM_ID]).as_dict()))
    assert {target["platform"] for target in found["targets"]} == {ARM}


@pytest.mark.parametrize(
    ("name", "machines", "fits"),
    [
        ("torch-2.9.1-cp311-cp311-manylinux_2_28_aarch64.whl", ["aarch64"], True),
        ("torch-2.9.1-cp311-cp311-manylinux_2_28_x86_64.whl", ["aarch64"], False),
        ("torch-2.9.1-cp311-cp311-manylinux_2_28_x86_64.whl", ["aarch64", "x86_64"], True),
        ("uv-0.13.8-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", ["x86_64"], False),
        ("six-1.17.0-py2.py3-none-any.whl", ["aarch64"], True),
    ],
)
def test_a_wheel_of_another_machine_does_not_count(name: str, machines: list[str], fits: bool) -> None:
    assert fits_machine(Path(name), machines) is fits


def test_pip_is_asked_for_wheels_of_the_machine() -> None:
    text = BOTH + "indexes: {special: {address: 'https://index.example', packages: [tensorflow]}}\n"
    [arm] = load_variants(of_both(text), [ARM_ID])
    words = wheels._pip_command(arm.indexed[0], Path("lock"), Path("draft"))
    asked = {words[place + 1] for place, word in enumerate(words) if word == "--platform"}
    assert {"manylinux_2_36_aarch64", "manylinux2014_aarch64", "linux_aarch64"} <= asked
    assert not [word for word in asked if "x86" in word]


def test_uv_of_another_platform_is_that_of_the_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def keep(*words: object) -> Path:
        asked.extend(words)
        with zipfile.ZipFile(tmp_path / "uv.whl", "w") as archive:
            archive.writestr("uv-0.1.data/scripts/uv", b"a program")
        return tmp_path / "uv.whl"

    monkeypatch.setattr(wheels, "keep_wheel", keep)
    assert wheels.fetch_uv("uv==0.1 \\\n    --hash=sha256:00\n", PLATFORMS[ARM], tmp_path) == b"a program"
    assert asked[:2] == [("uv", "0.1"), "uv==0.1 \\\n    --hash=sha256:00"]


def test_a_project_on_an_image_of_another_platform_is_of_it() -> None:
    project = f"from: {ARM_ID}\nname: mine\n"
    tree = locked({**of_both(), PROJECT: SourceFile(project.encode())})
    [own] = list_own_images(tree)
    assert own == f"{TENSORFLOW_ID}-mine-arm64"
    [variant] = load_variants(tree, [own])
    assert (variant.id, variant.system) == (own, "bookworm-arm64")
    assert variant.platforms["linux/amd64"] == NOT_ASKED


def test_docker_is_told_the_platform_of_an_image_that_is_not_the_engines() -> None:
    words = make_words("dlc/tensorflow:arm64", Path("/work"), "", "", ["bash"], ARM)
    assert words[words.index("--platform") + 1] == ARM
    assert "--platform" not in make_words("dlc/tensorflow:1", Path("/work"), "", "", ["bash"])
    job = Job(id="one", image="dlc/tensorflow:1", folder=Path("/jobs"), groups=(Group("all", ("algo-1",)),), code=())
    assert "--platform" not in make_container(job, "algo-1").words()
    assert f"--platform {ARM}" in " ".join(make_container(replace(job, platform=ARM), "algo-1").words())
