"""The commands of docs/advice.md run, and answer what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from profile_reports import written

from dlc.__main__ import main

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/advice.md").read_text()
COMMANDS = re.findall(r"^dlc (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def in_a_checkout_with_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buildspec").symlink_to(ROOT / "buildspec")
    (tmp_path / "profile").mkdir()
    written(tmp_path / "profile")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out


def test_the_page_says_what_its_first_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    command = next(command for command in COMMANDS if "p4d" in command)
    assert main(shlex.split(command)) == 0
    out = capsys.readouterr().out
    [said] = re.findall(r"It answers (.+), (2\..x faster, .+ cheaper)\.", PAGE)
    assert all(words in out for words in said)
    assert Path("advice.svg").is_file()


def test_every_variable_of_the_page_is_one_that_is_read() -> None:
    source = (ROOT / "src/dlc_runtime/profile/settings.py").read_text()
    assert set(re.findall(r"DLC_PROFILE\w*", PAGE)) == set(re.findall(r"DLC_PROFILE\w*", source))
