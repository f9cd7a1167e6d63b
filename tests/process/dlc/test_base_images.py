"""The tag of a base image is resolved to a digest once, so that the key and the build mean the same image."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.errors import BaseImageError
from dlc.engine.docker_client import Engine
from dlc.image_build import base_images
from dlc.image_build.base_images import resolve_base_images
from dlc.plan.contexts import Image
from dlc.plan.plan import Plan, make_plan
from harness.specimen import TORCH_ID, specimen

ENGINE = Engine(None, "context", "26.1", containerd_store=True)
# A client whose engine has `here:1`, and whose registry has `there:1`.
DOCKER = """#!/bin/sh
case "$*" in
    "image inspect "*" here:1") echo sha256:aa ;;
    "buildx imagetools inspect "*" there:1") echo sha256:bb ;;
    "buildx imagetools inspect "*" later:1")
        echo asked >> "$ASKED"
        [ $(wc -l < "$ASKED") -gt 2 ] && echo sha256:cc && exit
        echo 'ERROR: failed to do request: Head "https://registry.example/v2/": net/http: TLS handshake timeout' >&2
        exit 1 ;;
    *) echo "no such image" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def planned(base: str, images: dict[str, Image] | None = None) -> Plan:
    return make_plan(specimen(), [TORCH_ID], [f"base.image={base}"], images)


@pytest.mark.parametrize(
    ("base", "found"),
    [("here:1", Image("here:1", "sha256:aa", local=True)), ("there:1", Image("there:1", "sha256:bb"))],
)
def test_the_engine_is_asked_first_and_then_the_registry(base: str, found: Image) -> None:
    assert resolve_base_images(planned(base), ENGINE) == {base: found}
    again = planned(base, {base: found})
    assert again.target(TORCH_ID).contexts["rootfs"] == found
    assert again.target(TORCH_ID).key != planned(base).target(TORCH_ID).key
    assert resolve_base_images(again, ENGINE) == {}


def test_a_registry_that_does_not_answer_for_a_moment_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setattr(base_images, "PAUSES_SECONDS", (0.0, 0.0), raising=False)
    assert resolve_base_images(planned("later:1"), ENGINE) == {"later:1": Image("later:1", "sha256:cc")}
    assert capsys.readouterr().err.count("TLS handshake timeout; asked again") == 2


def test_a_base_of_a_digest_and_our_own_are_not_asked_for() -> None:
    assert resolve_base_images(planned(f"nowhere@sha256:{64 * 'a'}"), ENGINE) == {}
    assert resolve_base_images(planned(""), ENGINE) == {}


def test_a_base_that_nobody_has_is_named_with_what_was_said() -> None:
    with pytest.raises(BaseImageError, match=r"base image nowhere:1: expected it .* found: no such image"):
        resolve_base_images(planned("nowhere:1"), ENGINE)
