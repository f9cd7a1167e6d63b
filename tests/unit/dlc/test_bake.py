"""The bake file is the plan word for word: golden, pure, with secrets and proxies where they belong.

After an intended change: REFRESH_GOLDEN=1 pytest tests/unit/dlc, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from specimen import TENSORFLOW_ID, TORCH_ID, specimen

from dlc.build.bake import bake_name, render
from dlc.build.inputs import HostInputs
from dlc.core.errors import RecipeError
from dlc.plan.plan import Plan, make_plan

GOLDEN = Path(__file__).parents[1] / "golden"
HOST = HostInputs(
    root=Path("/repository"),
    contexts={
        f"{name}": Path("/host", name)
        for name in ("nothing", "ca", "tools", "wheels", "rootfs-bullseye", "rootfs-bookworm", "rootfs-trixie")
    },
    proxies={"HTTPS_PROXY": "http://proxy:3128"},
    secrets={"index_url": "env=UV_DEFAULT_INDEX", "netrc": "src=/root/.netrc"},
)


def baked(plan: Plan, host: HostInputs = HOST) -> dict[str, Any]:
    return render(plan, host, output="type=docker", epoch=1_700_000_000, revision="abc123")


def check_golden(name: str, value: object) -> None:
    text = json.dumps(value, indent=2) + "\n"
    path = GOLDEN / name
    if os.environ.get("REFRESH_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"REFRESH_GOLDEN=1 pytest {Path(__file__).name} writes it anew"


def test_the_bake_file_of_a_known_repository_is_the_golden_one() -> None:
    check_golden("specimen.bake.json", baked(make_plan(specimen())))


def test_only_selected_images_have_tags_and_outputs() -> None:
    targets = baked(make_plan(specimen(), ["pytorch-*"]))["target"]
    assert {name for name, target in targets.items() if "output" in target or "tags" in target} == {bake_name(TORCH_ID)}


def test_the_default_group_is_what_was_selected() -> None:
    value = baked(make_plan(specimen()))
    assert value["group"]["default"]["targets"] == [bake_name(TORCH_ID), bake_name(TENSORFLOW_ID)]


def test_every_target_link_names_a_target_of_the_file() -> None:
    targets = baked(make_plan(specimen()))["target"]
    links = [v for target in targets.values() for v in target["contexts"].values() if v.startswith("target:")]
    assert len(links) == 3
    assert {link.removeprefix("target:") for link in links} <= set(targets)


def test_secrets_are_given_as_places_and_never_to_the_root_file_system() -> None:
    targets = baked(make_plan(specimen()))["target"]
    assert targets[bake_name(TORCH_ID)]["secret"] == ["id=index_url,env=UV_DEFAULT_INDEX", "id=netrc,src=/root/.netrc"]
    assert "secret" not in targets["rootfs-bookworm"]


def test_proxies_reach_arguments_and_no_label() -> None:
    for target in baked(make_plan(specimen()))["target"].values():
        assert target["args"]["HTTPS_PROXY"] == "http://proxy:3128"
        assert "proxy" not in json.dumps(target["labels"])


def test_the_date_of_an_image_is_the_epoch_in_utc() -> None:
    target = baked(make_plan(specimen()))["target"][bake_name(TORCH_ID)]
    assert target["labels"]["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"
    assert target["labels"]["org.opencontainers.image.revision"] == "abc123"
    assert target["args"]["SOURCE_DATE_EPOCH"] == "1700000000"


def test_a_named_base_image_becomes_an_image_context() -> None:
    plan = make_plan(specimen(), ["pytorch-*"], ["base.image=debian:12"])
    contexts = baked(plan)["target"]["base-debian-12-py311"]["contexts"]
    assert contexts["rootfs"] == "docker-image://debian:12"


def test_a_folder_that_the_host_did_not_give_is_an_error() -> None:
    with pytest.raises(RecipeError, match="host:rootfs-bookworm"):
        baked(make_plan(specimen()), HostInputs(Path("/repository")))
