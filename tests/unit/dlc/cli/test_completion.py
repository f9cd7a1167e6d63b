"""What a shell is told that a word can become: verbs, options and their values, images, jobs, or files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import VERBS, make_parser
from dlc.cli.completion import FILES, complete
from dlc.core.checkout import find_root

TORCH = "pytorch-2.13-training-cpu-py311"


@pytest.fixture(autouse=True)
def with_two_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One runs, one has ended and left its lines in this folder."""
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache/jobs").mkdir(parents=True)
    (tmp_path / "cache/jobs/running").write_text("")
    (tmp_path / "dlc-jobs/ended").mkdir(parents=True)
    (tmp_path / "dlc-jobs/ended/log").touch()
    monkeypatch.chdir(tmp_path)


def words(*typed: str) -> list[str]:
    return [line.partition("\t")[0] for line in complete(typed, tuple(VERBS), make_parser)]


def test_the_first_word_is_a_verb() -> None:
    assert words("") == [*VERBS, "help"]
    assert words("help", "")[: len(VERBS) + 2] == [*VERBS, "exit-codes", "pages"]
    assert "proof" in words("help", "")
    assert words("no-verb", "") == []


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        (("run", ""), TORCH),
        (("run", TORCH, ""), FILES),
        (("run", "--hosts", "2", ""), TORCH),
        (("run", "--detach", TORCH, ""), FILES),
        (("run", TORCH, "--sou"), "--source"),
        (("run", TORCH, "--source", ""), FILES),
        (("run", TORCH, "train.py", "--", "--da"), FILES),
        (("run", TORCH, "train.py", "--da"), FILES),
        (("run", TORCH, "train.py", ""), FILES),
        (("plan", "a", "b", ""), TORCH),
        (("push", TORCH, "--compression", ""), "gzip"),
        (("engine", ""), "status"),
        (("logs", ""), "running"),
        (("logs", ""), "ended"),
        (("run", "--remove", ""), "running"),
        (("run", TORCH, "--distributed", ""), "torchrun"),
        (("submit", "job.yml", "--to", ""), "slurm"),
        (("plan", "--against", ""), FILES),
        (("lint", ""), FILES),
    ],
)
def test_a_word_can_become(typed: tuple[str, ...], some: str) -> None:
    assert some in words(*typed)


@pytest.mark.parametrize("typed", [("run", "--hosts", ""), ("stop", "running", ""), ("ps", "--", "")])
def test_a_word_that_is_free_or_one_too_many_is_not_completed(typed: tuple[str, ...]) -> None:
    assert words(*typed) == []


def test_only_words_that_begin_as_it_is_typed_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "words", "--", "show", "pytorch-2.13"]) == 0
    assert capsys.readouterr().out == f"{TORCH}\n"


def test_what_is_wrong_is_no_message_between_the_words_that_are_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "buildspec").mkdir()
    (tmp_path / "buildspec/defaults.yml").write_text("no: [yaml")
    assert main(["completion", "words", "--", "show", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_every_script_asks_for_the_words_behind_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "completion words -- " in capsys.readouterr().out
    assert "dlc completion bash" in (find_root(Path(__file__)) / "docs/running.md").read_text()
