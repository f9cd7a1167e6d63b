"""podman is told from Docker by what its service answers to `GET /version`."""

from __future__ import annotations

import os

import pytest

from dlc.core.errors import EngineError
from dlc.engine.connection import may_be_podman, names_podman
from dlc.engine.docker_client import Engine
from dlc.engine.remedies import advise_beside_podman

PODMAN = (
    '{"Platform": {"Name": "linux/amd64/debian-12"}, "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}'
)
DOCKER = '{"Platform": {"Name": "Docker Engine"}, "Components": [{"Name": "Engine", "Version": "26.1.5"}]}'


@pytest.mark.parametrize(
    ("answer", "is_podman"),
    [(PODMAN, True), (DOCKER, False), ("null", False), ("", False), ("[]", False), ('{"Components": null}', False),
     ('{"Components": [7]}', False)],
)  # fmt: skip
def test_podman_is_named_among_the_parts_of_the_engine(answer: str, is_podman: bool) -> None:
    assert names_podman(answer) is is_podman


def test_an_engine_that_names_its_index_is_not_asked_whether_it_is_podman() -> None:
    assert not may_be_podman({"IndexServerAddress": "https://index.docker.io/v1/"})
    assert not may_be_podman({})
    assert may_be_podman({"IndexServerAddress": ""})


def test_a_build_on_podman_is_refused_with_the_address_and_the_reason() -> None:
    engine = Engine("unix:///run/podman/podman.sock", "DOCKER_HOST", "4.3.1", containerd_store=False, is_podman=True)
    with pytest.raises(EngineError) as caught:
        engine.require_buildkit()
    assert caught.value.message == (
        "unix:///run/podman/podman.sock: expected a Docker engine, whose BuildKit makes the images, "
        "found podman 4.3.1, which has no BuildKit"
    )
    Engine(None, "context", "26.1.5", containerd_store=False).require_buildkit()


@pytest.mark.parametrize(("user", "off"), [(0, ""), (0, "off"), (1000, "")])
def test_the_remedy_beside_podman_is_one_that_this_user_can_follow(
    user: int, off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("DLC_ENGINE", off)
    starts_one = "dlc starts a Docker engine of its own" in advise_beside_podman("DOCKER_HOST")
    assert starts_one is (user == 0 and not off)
    assert "of its own beside" not in advise_beside_podman("context")
