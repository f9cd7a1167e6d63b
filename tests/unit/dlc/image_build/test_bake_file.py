"""The bake file is the plan word for word: golden, pure, with secrets and proxies where they belong.

After an intended change: REFRESH_GOLDEN=1 pytest tests/unit/dlc, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dlc.image_build.bake_file import HostInputs, bake_name, render
from dlc.plan.contexts import Image
from dlc.plan.plan import Plan, make_plan
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, locked, specimen, unlocked

GOLDEN = Path(__file__).parents[2] / "golden"


def host(plan: Plan) -> HostInputs:
    """A host that has everything, each in a folder named after it."""
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    return HostInputs(
        contexts={context: Path("/cache", str(context)) for context in wanted},
        dockerfiles={target.dockerfile: Path("/cache", target.dockerfile) for target in plan.targets},
        proxies={"HTTPS_PROXY": "http://proxy:3128"},
        secrets={"index_url": "env=UV_DEFAULT_INDEX", "netrc": "src=/root/.netrc"},
    )


def baked(plan: Plan) -> dict[str, Any]:
    return render(plan, host(plan), output="type=docker", epoch=1_700_000_000, revision="abc123")


def check_golden(name: str, value: object) -> None:
    text = json.dumps(value, indent=2) + "\n"
    path = GOLDEN / name
    if os.environ.get("REFRESH_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"REFRESH_GOLDEN=1 pytest {Path(__file__).name} writes it anew"


def test_the_bake_file_of_a_known_repository_is_the_golden_one() -> None:
    plan = make_plan(specimen())
    text = json.dumps(baked(plan))
    for target in plan.targets:
        text = text.replace(target.key, f"KEY({target.id})")
    check_golden("specimen.bake.json", json.loads(text))


def test_only_selected_images_have_tags_and_outputs() -> None:
    targets = baked(make_plan(specimen(), ["pytorch-*"]))["target"]
    assert {name for name, target in targets.items() if "output" in target or "tags" in target} == {bake_name(TORCH_ID)}


def test_the_default_group_is_what_was_selected() -> None:
    value = baked(make_plan(specimen()))
    assert value["group"]["default"]["targets"] == [bake_name(TORCH_ID), bake_name(TENSORFLOW_ID)]


def test_every_target_link_names_a_target_of_the_file() -> None:
    targets = baked(make_plan(specimen()))["target"]
    links = [v for target in targets.values() for v in target["contexts"].values() if v.startswith("target:")]
    assert len(links) == 22
    assert {link.removeprefix("target:") for link in links} <= set(targets)


def test_each_stage_is_a_target_because_its_wheels_are_its_own() -> None:
    targets = baked(make_plan(specimen()))["target"]
    framework, training = (targets[bake_name(f"{TORCH_ID}/{name}")] for name in ("framework", "training"))
    assert training["contexts"]["framework"] == f"target:{bake_name(f'{TORCH_ID}/framework')}"
    assert framework["target"] == "framework"


def test_bake_reads_no_variable_of_its_own_in_a_dockerfile_that_is_written_by_dlc() -> None:
    tree = locked(changed(unlocked(), PYTORCH_PATH, f"{PYTORCH}    env: {{HOMES: '${{HOME}} %{{x}}'}}\n"))
    [settings] = [t for name, t in baked(make_plan(tree, [TORCH_ID]))["target"].items() if name.endswith("_settings")]
    assert settings["dockerfile-inline"] == 'FROM training\nENV HOMES="\\$${HOME} %%{x}"\n'


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


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Image("debian:12"), "docker-image://debian:12"),
        (Image("debian:12", "sha256:ab"), "docker-image://debian:12@sha256:ab"),
        (Image("debian:12", "sha256:ab", local=True), "docker-image://debian:12"),
    ],
)
def test_a_named_base_image_is_taken_by_its_digest_where_a_registry_has_it(found: Image, expected: str) -> None:
    plan = make_plan(specimen(), ["pytorch-*"], ["base.image=debian:12"], {"debian:12": found})
    assert baked(plan)["target"][bake_name(TORCH_ID)]["contexts"]["rootfs"] == expected


def test_every_target_is_built_for_the_plans_platform() -> None:
    assert {str(target["platforms"]) for target in baked(make_plan(specimen()))["target"].values()} == {
        "['linux/amd64']"
    }


def test_the_content_key_reaches_the_image_alone() -> None:
    """A stage below it that had the key would be built anew with every change."""
    targets = baked(make_plan(specimen(), ["pytorch-*"]))["target"]
    assert [name for name, target in targets.items() if "DLC_CONTENT_KEY" in target["args"]] == [bake_name(TORCH_ID)]
