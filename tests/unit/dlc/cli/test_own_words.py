"""Where dlc's own words end: options behind a script are the script's, and a line says so of those that dlc has too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import make_parser
from dlc.cli.shared.own_words import Words, describe_misplaced, split_words
from dlc.core.checkout import find_root
from dlc.core.errors import SpecError, UsageError

TORCH = "pytorch-2.13-training-cpu-py311"
PROJECT = f"name: mine\nfrom: {TORCH}\nscript: train.py\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two scripts, one of which does not look like one."""
    for name in ("train.py", "start"):
        (tmp_path / name).write_text("print('trained')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def split(verb: str, *words: str) -> Words:
    parser, module = make_parser(verb)
    return split_words(parser, words, module.ends_own_words)


@pytest.mark.parametrize("verb", ["run", "tune-batch", "profile"])
@pytest.mark.parametrize(
    ("typed", "own", "passed_on"),
    [
        ("ID train.py --lr 0.1", "ID train.py", ["--lr", "0.1"]),
        ("ID train.py --hosts 2 x", "ID train.py", ["--hosts", "2", "x"]),
        ("--hosts 2 ID --memory 4g train.py a --b", "--hosts 2 ID --memory 4g train.py", ["a", "--b"]),
        ("--hosts=2 ID train.py -x", "--hosts=2 ID train.py", ["-x"]),
        ("--json ID train.py --json", "--json ID train.py", ["--json"]),
        ("ID train.py", "ID train.py", None),
        ("ID train.py -- --lr 1 -- 2", "ID train.py", ["--lr", "1", "--", "2"]),
        ("ID --hosts 2", "ID --hosts 2", None),
        ("ID -- --lr 1", "ID", ["--lr", "1"]),
    ],
)
def test_dlcs_own_words_end_with_the_script(verb: str, typed: str, own: str, passed_on: list[str] | None) -> None:
    found = split(verb, *typed.split())
    assert (list(found.own), found.passed_on) == (own.split(), passed_on)


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("train.py --lr 0.1", "train.py"),
        ("start --lr 0.1", "start"),
        ("--hosts 2 -- --lr 0.1", "--hosts 2"),
    ],
)
def test_in_a_project_the_only_word_is_the_script(here: Path, typed: str, own: str) -> None:
    found = split("run", *typed.split())
    assert (list(found.own), found.passed_on) == (own.split(), ["--lr", "0.1"])


def test_nothing_stands_behind_a_file_of_a_job_or_behind_reports(here: Path) -> None:
    assert split("run", "job.yml", "--detach", "--name", "mine").passed_on is None
    assert split("profile", "train.py", "start", "--on", "p3.2xlarge").passed_on is None


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the last words of each host's command, and what is said on stderr."""
    assert main(["run", "--explain", "--json", *words]) == 0
    said = capsys.readouterr()
    return [each["command"].partition(" train")[2].strip() for each in json.loads(said.out)["containers"]], said.err


def test_a_script_gets_its_options_as_they_are_typed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hosts", "2", TORCH, "train.py", "--lr", "0.1", "--flag", "a b", ""]
    assert explain(capsys, *words) == (["--lr 0.1 --flag 'a b' ''"] * 2, "")


def test_an_option_of_dlc_that_goes_to_the_script_is_said_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands, said = explain(capsys, TORCH, "train.py", "--hosts", "2", "--lr", "1", "--detach")
    assert commands == ["--hosts 2 --lr 1 --detach"]
    assert said == "dlc: --hosts 2 --detach go to train.py; dlc's own options come before the script\n"
    assert explain(capsys, TORCH, "train.py", "--", "--hosts", "2") == (["--hosts 2"], "")
    one = describe_misplaced(make_parser("run")[0], Words([], ["--memory=4g"], "train.py"))
    assert one == "--memory=4g goes to train.py; dlc's own options come before the script"


@pytest.mark.parametrize("words", [["train.py", "--lr", "0.1"], ["--", "--lr", "0.1"]])
def test_in_a_project_a_named_script_or_two_dashes_come_before_what_is_the_scripts(
    here: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "dlc.yml").write_text(PROJECT)
    assert explain(capsys, *words) == (["--lr 0.1"], "")


@pytest.mark.parametrize("words", [["--lr", "0.1"], ["job.yml", "--lr", "0.1"], [TORCH, "--lr", "0.1", "train.py"]])
def test_an_option_that_dlc_does_not_have_comes_with_its_place_and_no_guess(
    here: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "dlc.yml").write_text(PROJECT)
    assert main(["run", *words]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "unrecognized arguments: --lr" in said
    assert "did you mean" not in said
    assert "in a project, behind a --, as in dlc run -- --lr 0.1" in said


def test_a_script_that_a_project_names_and_lacks_is_told_with_its_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "dlc.yml").write_text(PROJECT.replace("train.py", "none.py"))
    assert main(["run", "--explain"]) == SpecError.exit_code
    said = capsys.readouterr().err
    assert f"dlc.yml:3:9: script: expected the file of an entry point, found no file {here}/none.py" in said
    (here / "dlc.yml").write_text(PROJECT.replace("script: train.py\n", ""))
    (here / "train.py").unlink()
    assert main(["run", "--explain"]) == SpecError.exit_code
    assert "dlc.yml:1:1: script: expected" in capsys.readouterr().err


def test_a_saved_job_keeps_what_is_the_scripts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--save", "job.yml", TORCH, "train.py", "--lr", "0.1"]) == 0
    capsys.readouterr()
    assert "arguments:\n- --lr\n- 0.1\n" in (here / "job.yml").read_text()
    assert explain(capsys, "job.yml") == (["--lr 0.1"], "")


def test_no_page_puts_an_option_of_dlc_behind_a_script() -> None:
    options = make_parser("run")[0]._option_string_actions
    root = find_root()
    # A record of a decision tells what was.
    docs = [page for page in root.glob("docs/**/*.md") if page.parent.name != "decisions"]
    pages = [*root.glob("*.md"), *docs, *root.glob("examples/**/*.md")]
    wrong = []
    for page in pages:
        for line in page.read_text().replace("\\\n", " ").splitlines():
            for command in line.split("dlc ")[1:]:
                verb, *words = command.partition("`")[0].split() or [""]
                if verb not in ("run", "profile", "tune-batch") or line.startswith("- "):
                    continue
                found = split(verb, *words)
                wrong += [line for word in found.passed_on or () if word.partition("=")[0] in options]
    assert wrong == []
