"""export: each image has one Dockerfile whose every name, file and argument is there; nothing is of this host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlc.buildspec.lockfile import FILES, INPUT, parse_entries
from dlc.core import labels
from dlc.core.checkout import Tree, find_root, read_text, read_tree
from dlc.core.errors import SpecError, UsageError
from dlc.image_build.export import dockerfile
from dlc.image_build.export.dockerfile import render_dockerfile
from dlc.image_build.export.folder import list_files
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import SHARED, UV_LOCK
from harness.specimen import changed

ROOT = find_root(Path(__file__).parent)
TREE = read_tree(ROOT)
ALL = make_plan(TREE)
TORCH = "pytorch-2.13-training-cpu-py311"
STAMPS = {labels.CREATED: "2026-11-20T00:00:00Z", labels.REVISION: "0123abcd"}
EPOCH = 1_795_000_000
# What the user may give and need not.
LEFT_OPEN = {"DEBIAN_MIRROR", "DEBIAN_SECURITY"}
FROM = re.compile(r"^FROM (\S+) AS (\S+)$", re.MULTILINE)
STEP = re.compile(r"^(COPY|ADD|RUN) .*(?:\n(?<=\\\n).*)*", re.MULTILINE)
OTHER_BASES = (["base.image=debian:12"], ["base.image=ubuntu:24.04"])


def plan_of(identifier: str) -> Plan:
    return ALL.without([name for name in ALL.selected if name != identifier])


def export(plan: Plan, *, bake: bool = False) -> Tree:
    return list_files(plan, TREE, STAMPS, EPOCH, bake=bake)


def stages(text: str) -> list[tuple[str, str, str]]:
    """Name, base and instructions of each stage, in order."""
    heads = list(FROM.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [(head[2], head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]


def misfits(files: Tree) -> Iterator[str]:
    """Whatever the Dockerfile names that is neither an earlier stage nor a file of the folder."""
    text = read_text(files, "Dockerfile")
    there = {"scratch", "${DEBIAN_IMAGE}", "${BASE_IMAGE}"}
    for name, base, body in stages(text):
        if base not in there or name in there:
            yield f"FROM {base} AS {name}"
        for step in (match[0].replace("\\\n", " ") for match in STEP.finditer(body)):
            mounts = [dict(word.partition("=")[::2] for word in words.split(","))
                      for words in re.findall(r"--mount=(\S+)", step)]  # fmt: skip
            copied = re.findall(r"--from=(\S+)", step)
            yield from (f"{name}: {source}" for source in copied if source not in there)
            yield from (f"{name}: {mount['from']}" for mount in mounts if mount.get("from", "scratch") not in there)
            own = [m["source"] for m in mounts if m["type"] == "bind" and "from" not in m]
            own += step.split()[1:-1] if step.startswith(("COPY", "ADD")) and not copied else []
            yield from (
                f"{name}: no {path}" for path in own if not any(f"{file}/".startswith(f"{path}/") for file in files)
            )
        there.add(name)


def undefined(text: str) -> set[str]:
    """Arguments without a value."""
    return set(re.findall(r"^ARG (\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize("identifier", ALL.selected)
def test_every_image_has_a_dockerfile_that_takes_from_stages_and_from_its_folder_alone(identifier: str) -> None:
    files = export(plan_of(identifier))
    text = read_text(files, "Dockerfile")
    assert list(misfits(files)) == []
    assert undefined(text) == LEFT_OPEN
    assert f'LABEL {labels.KEY}="{ALL.target(identifier).key}"' in text
    assert f'ARG DLC_CONTENT_KEY="{ALL.target(identifier).key}"' in text
    assert "rootfs.tar" not in text


@pytest.mark.parametrize("sets", OTHER_BASES, ids=str)
def test_a_base_image_takes_the_place_of_debian_packages(sets: list[str]) -> None:
    plan = make_plan(TREE, [TORCH], sets)
    files = export(plan)
    text = read_text(files, "Dockerfile")
    assert list(misfits(files)) == []
    assert "FROM ${BASE_IMAGE} AS rootfs\n" in text
    assert "FROM ${BASE_IMAGE} AS tools-rootfs\n" in text
    assert f"ARG BASE_IMAGE={sets[0].partition('=')[2]}\n" in text
    assert "mmdebstrap" not in text
    assert f'"{plan.target(TORCH).key}"' in text


def test_a_name_that_leads_nowhere_is_found() -> None:
    files = export(plan_of(TORCH))
    text = read_text(files, "Dockerfile")
    assert list(
        misfits(changed(files, "Dockerfile", text.replace("FROM skeleton AS framework", "FROM lowest AS framework")))
    ) == ["FROM lowest AS framework"]
    assert list(misfits({path: file for path, file in files.items() if path != "locks/framework.txt"})) == [
        "framework: no locks/framework.txt", "horovod: no locks/framework.txt",
    ]  # fmt: skip


@pytest.mark.parametrize("identifier", ALL.selected)
def test_steps_are_those_of_the_repositorys_dockerfiles_word_for_word(identifier: str) -> None:
    """So their layers have the same bytes: only what a mount comes from, and defaults of arguments, differ."""
    own = {name: body for name, _, body in stages(read_text(export(plan_of(identifier)), "Dockerfile"))}
    framework = identifier.partition("-")[0]
    compared = 0
    for path in (SHARED, f"docker/{framework}/Dockerfile"):
        for name, _, body in stages(read_text(TREE, path)):
            commands = re.findall(r"^    /.*|^    &&.*", body, re.MULTILINE)
            if name in own:
                assert commands == re.findall(r"^    /.*|^    &&.*", own[name], re.MULTILINE), name
                compared += len(commands)
    assert compared > 30


def test_locks_have_their_entries_and_none_of_dlcs_own_lines() -> None:
    files = export(plan_of(TORCH))
    for name in FILES:
        text = read_text(files, f"locks/{name}")
        assert parse_entries(text) == parse_entries(read_text(TREE, f"docker/pytorch/locks/{TORCH}/{name}"))
        assert INPUT not in text


def test_a_local_version_comes_from_the_index_that_the_buildspec_names_for_it() -> None:
    files = export(plan_of(TORCH))
    assert 'ARG INDEXES="pytorch-cpu=https://download.pytorch.org/whl/cpu"' in read_text(files, "Dockerfile")
    [lock] = [path for path in files if path.startswith("locks/indexes/")]
    assert lock == "locks/indexes/pytorch-cpu/torch.txt"
    assert read_text(files, lock).startswith("torch==2.13.0+cpu \\\n    --hash=sha256:")


def test_an_image_without_such_packages_asks_no_other_index() -> None:
    text = read_text(export(plan_of("tensorflow-2.21-training-cpu-py311")), "Dockerfile")
    assert "INDEXES" not in text
    assert "from=own-wheels" in text


def test_software_with_an_address_and_a_hash_is_downloaded_in_the_build() -> None:
    digest = "ab" * 32
    sets = ["cuda_compat.url=https://example.com/compat.deb", f"cuda_compat.sha256={digest}"]
    files = export(make_plan(TREE, ["pytorch-2.9-training-cu128-py311"], sets))
    assert list(misfits(files)) == []
    assert f'ARG CUDA_COMPAT="{digest} https://example.com/compat.deb"' in read_text(files, "Dockerfile")
    assert "from=cuda-compat,target=/cuda-compat" in read_text(files, "Dockerfile")


def test_nothing_of_this_host_is_in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = export(plan_of(TORCH), bake=True)
    for name in ("HTTPS_PROXY", "UV_DEFAULT_INDEX", "UV_INDEX", "DLC_INDEX_PYTORCH_CPU", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://me:s3cret@10.11.12.13:3128/")
    monkeypatch.setenv("NETRC", "/home/someone/.netrc")
    after = export(plan_of(TORCH), bake=True)
    assert after == before
    assert not any(str(ROOT).encode() in file.data for file in after.values())


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://me:s3cret@example.com/simple", "https://example.com/simple: expected an address without a login"),
        ("http://127.0.0.1:8080/simple", "expected an address that a build on another machine can reach"),
        ("http://localhost/simple", "expected an address that a build on another machine can reach"),
        ("http://[::1]/simple", "expected an address that a build on another machine can reach"),
        ("file:///srv/wheels", "expected an address that a build on another machine can reach"),
    ],
)
def test_an_address_that_no_other_host_may_have_is_refused(address: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        dockerfile._require_reachable("indexes.x.address", address)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_two_stages_of_one_name_are_refused() -> None:
    path = "docker/pytorch/Dockerfile"
    tree = changed(TREE, path, read_text(TREE, path).replace("AS training", "AS base"))
    with pytest.raises(SpecError, match="stage base: another Dockerfile of this image has a stage of that name"):
        render_dockerfile(make_plan(tree, [TORCH]), tree, STAMPS)


def test_a_file_of_the_lock_folder_that_is_copied_is_refused() -> None:
    path = "docker/pytorch/Dockerfile"
    tree = changed(TREE, path, read_text(TREE, path) + "COPY framework.txt /\n")
    with pytest.raises(SpecError, match=r"stage training: expected files to be mounted.*COPY framework\.txt /"):
        render_dockerfile(make_plan(tree, [TORCH]), tree, STAMPS)


def test_another_uv_on_this_host_changes_no_file_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = export(plan_of(TORCH))
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
    assert list_files(make_plan(TREE, [TORCH]), TREE, STAMPS, EPOCH) == before


def test_uv_has_the_hashes_of_requirements_lock() -> None:
    locked = parse_entries((ROOT / "requirements.lock").read_text())
    assert parse_entries(read_text(TREE, UV_LOCK)) == {pin: entry for pin, entry in locked.items() if pin[0] == "uv"}


def test_the_readme_says_what_to_type_in_ten_lines() -> None:
    for name in ALL.selected:
        lines = [line for line in read_text(export(plan_of(name)), "README.md").splitlines() if line]
        assert len(lines) == 10
        assert f"    docker build -t {ALL.target(name).tags[0]} ." in lines


def test_the_bake_file_names_variables_and_the_image() -> None:
    files = export(plan_of(TORCH), bake=True)
    document: dict[str, Any] = json.loads(read_text(files, "docker-bake.json"))
    [target] = document["target"].values()
    assert target["tags"] == ["dlc/pytorch:2.13-training-cpu-py311"]
    assert target["target"] == "image"
    assert target["platforms"] == ["linux/amd64"]
    assert document["variable"]["SOURCE_DATE_EPOCH"] == {"default": str(EPOCH)}
    assert all(variable["default"] in ("", str(EPOCH)) for variable in document["variable"].values())
    assert "docker-bake.json" not in export(plan_of(TORCH))
