"""`dlc site`: a whole site or none, in a folder that held nothing else; what an engine and records say is in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import run, site
from dlc.core.checkout import find_root
from dlc.core.errors import UsageError
from dlc.engine.docker_client import Engine
from dlc.site.pages import SIGN
from harness.image_facts import HISTORY, INSPECTED, PROBED
from harness.site_links import list_faults, list_lost

ROOT = find_root(Path(__file__).parent)
TORCH, REF = "pytorch-2.13-training-cpu-py311", "dlc/pytorch:2.13-training-cpu-py311"
PAGE = f"images/{TORCH}.html"
DIGEST = str(INSPECTED["Id"])
# A client of an engine that has one image. It answers from files beside it.
CLIENT = f"""#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
  *"image inspect --format"*) echo "{REF} |0123abcd" ;;
  *"image inspect"*) cat inspected ;;
  *history*) cat history ;;
  *run*) cat >/dev/null; cat probed ;;
esac
"""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine with one image."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").write_text(CLIENT)
    (folder / "docker").chmod(0o755)
    (folder / "inspected").write_text(
        json.dumps([{**INSPECTED, "RepoTags": [REF, "r.example/x:1"], "RepoDigests": []}])
    )
    (folder / "history").write_text("\n".join(HISTORY))
    (folder / "probed").write_text(json.dumps(PROBED))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(site, "_find_engine", lambda: Engine(None, "context", "26", containerd_store=False))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_site_without_an_engine_is_whole_and_can_be_read_by_all(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    assert main(["site", str(folder), "--no-engine"]) == 0
    found = files_of(folder)
    other_platform = "images/tensorflow-2.21-training-cpu-py311-arm64.html"
    assert {"index.html", PAGE, other_platform, "docs/measurements.html", SIGN} <= {*found}
    assert list(list_lost(found)) == []
    assert list(list_faults(found)) == []
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o644}
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.usefixtures("engine")
def test_what_an_engine_has_is_shown_and_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "site"
    assert main(["site", str(folder), "pytorch-2.13-*-cpu-*"]) == 0
    assert "1 images, 1 of them built" in capsys.readouterr().out
    text = (folder / PAGE).read_text()
    for word in (DIGEST, "r.example/x:1", "libc6", 'class="treemap '):
        assert word in text, word
    known = json.loads((folder / SIGN).read_text())["images"][TORCH]
    assert [each["digest"] for each in known["digests"]] == [DIGEST]
    # The next catalogues know of it, without an engine too, and if they do not show it.
    assert main(["site", str(folder), "tensorflow-2.21-*-cpu-*", "--no-engine"]) == 0
    assert not (folder / PAGE).exists()
    assert main(["site", str(folder), "--no-engine"]) == 0
    assert DIGEST in (folder / PAGE).read_text()
    assert (folder / "images/pytorch-2.15-training-cu132-py313.html").is_file()


@pytest.mark.usefixtures("engine")
def test_records_of_a_folder_are_shown(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    suite = f'<testsuite timestamp="2026-11-27T10:00:00"><testcase name="test_a[{TORCH}]"/></testsuite>'
    (records / "tests.xml").write_text(f"<testsuites>{suite}</testsuites>")
    (records / "key.json").write_text(
        json.dumps({"ref": REF, "digest": DIGEST, "signed_by": "our key", "day": "2026-11-28"})
    )
    (records / "note.txt").write_text("not read")
    assert main(["site", str(tmp_path / "site"), TORCH, "--records", str(records)]) == 0
    text = (tmp_path / "site/verified.html").read_text()
    assert ">1 passed<" in text
    assert ">our key<" in text
    assert "of another digest" not in text


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"mine.txt": "x"}, "found mine.txt in it"),
        ({SIGN: "{}"}, f"found {SIGN} in it"),
        ({SIGN: '{"made_by": "another", "images": {}}'}, f"found {SIGN} in it"),
        ({".hidden": ""}, "found .hidden in it"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused_and_left(
    tmp_path: Path, names: dict[str, str], words: str
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    for name, text in names.items():
        (folder / name).write_text(text)
    with pytest.raises(UsageError, match="expected an empty folder or a site of dlc") as caught:
        run(["site", str(folder), "--no-engine"])
    assert words in str(caught.value)
    assert files_of(folder) == {name: text.encode() for name, text in names.items()}


def test_what_is_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for place, words in (
        ("file", "found a file"),
        ("link", "found a file or a link"),
        ("a/b", "expected a folder, in"),
    ):
        with pytest.raises(UsageError, match=words):
            run(["site", str(tmp_path / place), "--no-engine"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="the current folder"):
        run(["site", ".", "--no-engine"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "here", "link"]


def test_a_place_that_takes_no_files_is_refused_before_any_image_is_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(site, "_find_engine", lambda: asked.append("engine"))
    with pytest.raises(UsageError, match=r"^/proc/self: expected a folder that dlc can write"):
        run(["site", "/proc/self/site", TORCH])
    assert asked == []


def test_a_wrong_record_leaves_the_old_site(tmp_path: Path) -> None:
    folder, records = tmp_path / "site", tmp_path / "records"
    assert main(["site", str(folder), TORCH, "--no-engine"]) == 0
    before = files_of(folder)
    with pytest.raises(UsageError, match=r"--records .*: expected a folder, found none"):
        run(["site", str(folder), "--no-engine", "--records", str(records)])
    records.mkdir()
    (records / "x.json").write_text("{}")
    with pytest.raises(UsageError, match=r"x.json: expected a record: JUnit XML"):
        run(["site", str(folder), "--no-engine", "--records", str(records)])
    assert files_of(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "site"]
