"""engine.pushed: an image that a builder pushed is pulled by its digest, once, and only if it is what was pushed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlc.core.errors import ImageError
from dlc.engine.docker_client import Engine
from dlc.engine.pushed import Record, forget_records, pull_pushed, read_record, write_record

REF, OTHER = "dlc/toy:1", "dlc/toy:2"
NAME = f"registry.example/team/toy@sha256:{'0' * 64}"
ENGINE = Engine(None, "context", "26.1.5", containerd_store=True)
# An engine that has the images of the files below `images`: reference with : for /, and its content key.
CLIENT = """#!/bin/sh
cd "$(dirname "$0")/.."
echo "$*" >>calls
last() { for word in "$@"; do :; done; echo "$word"; }
file() { echo "images/$(echo "$1" | tr / :)"; }
case "$1" in
    image) path=$(file "$(last "$@")"); [ -f "$path" ] && echo "$(last "$@") |$(cat "$path")" && exit 0
           echo "Error: No such image" >&2; exit 1 ;;
    pull) [ -f served ] || { echo "Error: manifest unknown" >&2; exit 1; } ;;
    tag) cp served "$(file "$3")" ;;
esac
"""


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "bin/docker").write_text(CLIENT)
    (tmp_path / "bin/docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))


def calls(tmp_path: Path) -> list[str]:
    """What the client was asked, questions about images aside."""
    path = tmp_path / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if not line.startswith("image ")]


def test_it_is_pulled_by_its_digest_and_named_and_then_it_is_here(tmp_path: Path) -> None:
    (tmp_path / "served").write_text("key-1")
    write_record(Record(REF, NAME, "key-1"))
    pull_pushed(ENGINE, [REF, OTHER])
    assert calls(tmp_path) == [f"pull --quiet {NAME}", f"tag {NAME} {REF}"]
    pull_pushed(ENGINE, [REF, OTHER])
    assert len(calls(tmp_path)) == 2


def test_a_newer_one_takes_the_place_of_what_is_here(tmp_path: Path) -> None:
    (tmp_path / "images" / REF.replace("/", ":")).write_text("key-0")
    (tmp_path / "served").write_text("key-1")
    write_record(Record(REF, NAME, "key-1"))
    pull_pushed(ENGINE, [REF])
    assert calls(tmp_path)[0] == f"pull --quiet {NAME}"


def test_nothing_is_asked_of_an_engine_without_a_note(tmp_path: Path) -> None:
    pull_pushed(ENGINE, [REF, OTHER])
    write_record(Record(REF, NAME, "key-1"))
    forget_records([REF, OTHER])
    assert read_record(REF) is None
    pull_pushed(ENGINE, [REF, OTHER])
    assert not (tmp_path / "calls").exists()


def test_an_image_that_is_gone_or_another_one_is_one_error(tmp_path: Path) -> None:
    write_record(Record(REF, NAME, "key-1"))
    with pytest.raises(ImageError, match="cannot be pulled: Error: manifest unknown"):
        pull_pushed(ENGINE, [REF])
    (tmp_path / "served").write_text("key-2")
    with pytest.raises(ImageError, match="expected the content key key-1, found another"):
        pull_pushed(ENGINE, [REF])


def test_a_note_that_nobody_can_read_is_none(tmp_path: Path) -> None:
    write_record(Record(REF, NAME, "key-1"))
    [path] = (tmp_path / "cache/pushed").glob("*.json")
    path.write_text("{")
    assert read_record(REF) is None
