"""The wheel that a user names, and the one that a project pins: taken by its hash, or refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dlc
from dlc.__main__ import main
from dlc.buildspec.tool_pin import TOOL_LOCK, ToolPin, read_tool_pin, write_tool_lock
from dlc.core.checkout import find_workspace, read_workspace
from dlc.core.errors import LockError, UsageError
from dlc.image_build import tool_wheel
from dlc.image_build.tool_wheel import explain_other_tool, read_pinned, take_wheel
from harness.tool_wheels import NEED, make_tool_wheel

NAME = "dlc-1.0.0-py3-none-any.whl"
ADDRESS = f"https://files.example/{NAME}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said_by(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def test_a_file_becomes_a_pin_with_its_hash_and_its_needs(here: Path) -> None:
    path, digest = make_tool_wheel(here / "downloads")
    found = take_wheel(str(path))
    assert (found.pin, found.needs, found.data) == (ToolPin(f"tools/{NAME}", digest), NEED, path.read_bytes())


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("none.whl", "expected a name such as dlc-1.0.0"),
        (NAME, "expected a file, found: No such file"),
        (f"http://files.example/{NAME}", "or an https address without credentials"),
        (f"https://me:hunter2@files.example/{NAME}#sha256={'0' * 64}", "or an https address without credentials"),
        (f"https://files.example/{NAME}?token=hunter2#sha256={'0' * 64}", "or an https address without credentials"),
        (ADDRESS, "expected its hash behind the address, found none"),
        (f"{ADDRESS}#sha256=00", "expected its hash behind the address, found 00"),
    ],
)
def test_other_words_are_refused_without_a_password(here: Path, word: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        take_wheel(word)
    assert "hunter2" not in str(caught.value)
    assert caught.value.remedy


def test_what_is_no_wheel_of_dlc_or_too_old_is_refused(here: Path) -> None:
    (here / NAME).write_bytes(b"<html>")
    with pytest.raises(
        UsageError, match=r"expected a wheel of dlc 1\.0\.0 with .*requirements-run\.lock, found another"
    ):
        take_wheel(NAME)
    make_tool_wheel(here, needs=None)
    with pytest.raises(UsageError, match=r"found another file: .*requirements-run\.lock"):
        take_wheel(NAME)
    path, _ = make_tool_wheel(here, "1.1.0")
    path.rename(here / NAME)
    with pytest.raises(UsageError, match=r"found another file: .*dlc-1\.0\.0\.dist-info"):
        take_wheel(NAME)


def test_a_project_is_made_with_the_wheel_and_pinned_to_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, digest = make_tool_wheel(here / "downloads")
    assert f"demo/tools/{NAME}\n" in said_by(["init", "demo", "--tool", str(path)], 0, capsys)
    tree = read_workspace(find_workspace(here / "demo"))
    assert read_tool_pin(tree) == ToolPin(f"tools/{NAME}", digest)
    assert (here / f"demo/tools/{NAME}").read_bytes() == path.read_bytes()
    assert tree[TOOL_LOCK].data.decode().endswith(NEED)


def test_a_checkout_makes_a_project_without_a_pin_and_says_how_to_get_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_by(["init", "demo"], 0, capsys)
    assert "dlc.yml: tool is left out: this dlc is a checkout\n  remedy: dlc init --tool FILE" in said
    path, digest = make_tool_wheel(here)
    assert said_by(["init", "demo", "--tool", str(path)], 0, capsys).endswith(f"tools/{NAME}\n{TOOL_LOCK}\n")
    assert read_tool_pin(read_workspace(find_workspace(here / "demo"))) == ToolPin(f"tools/{NAME}", digest)
    said = said_by(["init", "demo", "--tool", str(path)], UsageError.exit_code, capsys)
    assert (
        f"this project pins tools/{NAME} already\n  remedy: write there wheel: tools/{NAME}, sha256: {digest}" in said
    )
    assert "expected a folder that is no project yet" in said_by(
        ["init", "demo", "--tool", str(path), "--name", "x"], UsageError.exit_code, capsys
    )


def test_a_file_to_which_no_key_can_be_added_stays_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, digest = make_tool_wheel(here)
    text = "{name: mine, from: pytorch-2.13-training-cpu-py311}\n"
    (here / "dlc.yml").write_text(text)
    said = said_by(["init", "--tool", str(path)], UsageError.exit_code, capsys)
    assert "no key can be added at its end" in said
    assert f"sha256: {digest}" in said
    assert {entry.name for entry in here.iterdir()} == {"dlc.yml", NAME}
    assert (here / "dlc.yml").read_text() == text


def test_another_file_in_the_wheels_place_is_neither_taken_nor_replaced(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = make_tool_wheel(here / "downloads")
    (here / "demo/tools").mkdir(parents=True)
    (here / "demo/tools" / NAME).write_text("mine")
    said = said_by(["init", "demo", "--tool", str(path)], UsageError.exit_code, capsys)
    assert f"tools/{NAME}: expected the wheel of" in said
    assert [entry.name for entry in (here / "demo").iterdir()] == ["tools"]


def test_a_pinned_wheel_is_read_by_its_hash(here: Path) -> None:
    path, digest = make_tool_wheel(here / "tools")
    pin = ToolPin(f"tools/{NAME}", digest)
    assert read_pinned(pin, here).needs == NEED
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(LockError, match=f"expected sha256 {digest} as dlc.yml says, found"):
        read_pinned(pin, here)
    path.unlink()
    with pytest.raises(LockError, match=r"expected the wheel that dlc\.yml names, found: No such file"):
        read_pinned(pin, here)


def test_a_lock_of_the_pin_before_is_made_anew_by_dlc_lock(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = make_tool_wheel(here)
    said_by(["init", "demo", "--tool", str(path)], 0, capsys)
    monkeypatch.chdir(here / "demo")
    monkeypatch.setattr("dlc.cli.lock.write_lock", lambda *_: "an image")
    newer, digest = make_tool_wheel(here / "demo/tools", "1.1.0")
    pin = read_tool_pin(read_workspace())
    assert pin
    text = Path("dlc.yml").read_text().replace(pin.wheel, f"tools/{newer.name}").replace(pin.sha256, digest)
    Path("dlc.yml").write_text(text)
    with pytest.raises(LockError):
        read_tool_pin(read_workspace())
    assert "locks/tool.txt: dlc 1.1.0 and 1 packages" in said_by(["lock"], 0, capsys)
    pin = ToolPin(f"tools/{newer.name}", digest)
    assert read_tool_pin(read_workspace()) == pin
    assert Path(TOOL_LOCK).read_text() == write_tool_lock(pin, NEED)


def test_another_dlc_than_the_pinned_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pin = ToolPin(f"tools/dlc-{dlc.__version__}-py3-none-any.whl", "a" * 64)
    assert explain_other_tool(pin) == f"dlc.yml pins a wheel of dlc {dlc.__version__}, and this is a checkout"
    assert f"dlc.yml pins dlc 9.1, and this is dlc {dlc.__version__}" in explain_other_tool(
        ToolPin("tools/dlc-9.1-py3-none-any.whl", "a" * 64)
    )
    monkeypatch.setattr(tool_wheel, "OWN", Path("/nowhere"))
    for own, said in (("a" * 64, ""), ("", ""), ("b" * 64, f"sha256 {'a' * 12}..., and this one has {'b' * 12}...")):
        monkeypatch.setattr(tool_wheel, "find_own_hash", lambda own=own: own)
        assert explain_other_tool(pin).endswith(said)
        assert bool(explain_other_tool(pin)) == bool(said)
