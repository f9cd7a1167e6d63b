"""`dlc init --devcontainer`: a devcontainer.json that the specification allows, of the project's own image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.buildspec.devcontainer import FILE
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_workspace, read_workspace
from dlc.core.errors import UsageError

# What the public schema (devcontainers/spec, schemas/devContainer.base.schema.json) says of a container of an image:
# no other key, and values of these types.
KEYS: dict[str, type | tuple[type, ...]] = {
    "name": str, "image": str, "init": bool, "overrideCommand": bool, "remoteUser": str, "containerUser": str,
    "updateRemoteUserUID": bool, "runArgs": list, "remoteEnv": dict, "containerEnv": dict, "customizations": dict,
    "hostRequirements": dict, "workspaceFolder": str, "workspaceMount": str, "mounts": list, "features": dict,
    "forwardPorts": list, "initializeCommand": (str, list, dict), "onCreateCommand": (str, list, dict),
    "postCreateCommand": (str, list, dict), "postStartCommand": (str, list, dict),
}  # fmt: skip
GPU = (True, False, "optional")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find_mistakes(value: dict[str, Any]) -> list[str]:
    """Return what the schema would refuse."""
    wrong = [f"{key}: no such key" for key in value if key not in KEYS]
    wrong += [f"{key}: {each!r}" for key, each in value.items() if key in KEYS and not isinstance(each, KEYS[key])]
    wrong += [f"runArgs: {word!r}" for word in value.get("runArgs", []) if not isinstance(word, str)]
    wrong += [
        f"{kind}.{name}: {text!r}"
        for kind in ("remoteEnv", "containerEnv")
        for name, text in value.get(kind, {}).items()
        if not isinstance(text, str)
    ]
    needs = value.get("hostRequirements", {})
    wrong += [f"hostRequirements.{key}" for key in needs if key not in {"cpus", "memory", "storage", "gpu"}]
    if needs.get("gpu", False) not in GPU:
        wrong.append("hostRequirements.gpu")
    if "image" not in value:
        wrong.append("image is missing")
    return wrong


def read_file(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / FILE).read_text())
    return value


def test_a_new_project_gets_a_container_of_its_own_image_for_root(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "demo", "--devcontainer"]) == 0
    assert f"demo/{FILE}" in capsys.readouterr().out
    value = read_file(here / "demo")
    assert find_mistakes(value) == []
    assert value["image"] == load_variants(read_workspace(find_workspace(here / "demo")), ["*-demo"])[0].ref
    assert value["remoteUser"] == "root"
    assert value["updateRemoteUserUID"] is False
    assert "hostRequirements" not in value


def test_without_the_option_there_is_none(here: Path) -> None:
    assert main(["init", "demo"]) == 0
    assert not (here / "demo/.devcontainer").exists()


def test_an_image_for_gpus_takes_them_if_there_are_some(here: Path) -> None:
    assert main(["init", "demo", "--devcontainer", "--from", "pytorch-2.15-training-cu132-py313"]) == 0
    value = read_file(here / "demo")
    assert value["hostRequirements"] == {"gpu": "optional"}
    assert find_mistakes(value) == []


def test_a_project_that_is_there_gets_it_too_and_keeps_the_rest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "demo", "--name", "mine"]) == 0
    before = (here / "demo/dlc.yml").read_text()
    assert main(["init", "demo", "--devcontainer"]) == 0
    assert read_file(here / "demo")["image"] == "mine/pytorch:2.13-training-cpu-py311-mine"
    assert (here / "demo/dlc.yml").read_text() == before
    (here / "demo" / FILE).write_text("{}")
    capsys.readouterr()
    assert main(["init", "demo", "--devcontainer"]) == 0
    assert f"{FILE}: there already, left as it is" in capsys.readouterr().out
    assert read_file(here / "demo") == {}


@pytest.mark.parametrize("words", [["--name", "other"], ["--package", "einops"], ["--from", "tensorflow-2.21-*"]])
def test_what_a_project_that_is_there_says_itself_is_refused(
    here: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "demo"]) == 0
    assert main(["init", "demo", "--devcontainer", *words]) == UsageError.exit_code
    assert f"{words[0]}: expected a folder that is no project yet" in capsys.readouterr().err
    assert not (here / "demo/.devcontainer").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"remoteuser": "root"}, "remoteuser: no such key"),
        ({"runArgs": "--shm-size=8g"}, "runArgs: '--shm-size=8g'"),
        ({"runArgs": [8]}, "runArgs: 8"),
        ({"init": "yes"}, "init: 'yes'"),
        ({"remoteEnv": {"A": 1}}, "remoteEnv.A: 1"),
        ({"hostRequirements": {"gpu": "maybe"}}, "hostRequirements.gpu"),
        ({"hostRequirements": {"gpus": 1}}, "hostRequirements.gpus"),
    ],
)
def test_planted_mistakes_are_found(here: Path, change: dict[str, Any], said: str) -> None:
    assert main(["init", "demo", "--devcontainer"]) == 0
    assert find_mistakes(read_file(here / "demo") | change) == [said]
