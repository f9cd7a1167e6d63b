"""dlc run on its command line: what it takes, and what it says without an engine."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli.run_job import EXAMPLE, add_arguments
from dlc.core.checkout import find_root
from dlc.core.errors import UsageError

TORCH = "pytorch-2.13-training-cpu-py311"


@pytest.fixture(autouse=True)
def in_the_repository_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_root(Path(__file__)))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("print('trained')")
    return str(path)


def test_explain_needs_no_engine_and_writes_nothing(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    words = ["run", TORCH, script, "--group", "data=2", "--group", "dnn=1", "--output", str(results), "--explain"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.count("docker run --pull never") == 3
    assert '"current_group_name": "dnn"' in text
    assert not results.exists()
    assert not (tmp_path / "cache").exists()


def test_explain_prints_json_for_programs(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TORCH, script, "--hosts", "2", "--hp", "lr=0.1", "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["containers"]
    assert first["command"].endswith(f"dlc/pytorch:{TORCH.removeprefix('pytorch-')} train")
    assert second["config"]["resourceconfig.json"]["current_host"] == "algo-2"
    assert second["config"]["hyperparameters.json"]["lr"] == "0.1"


def test_options_may_stand_between_image_and_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TORCH, "--hosts", "2", script, "--explain"]) == 0
    assert "algo-2" in capsys.readouterr().out


def test_two_jobs_have_different_names(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["run", TORCH, script, "--explain", "--json"]) == 0
    first, _, second = capsys.readouterr().out.partition("\n}\n")
    assert json.loads(first + "}")["network"] != json.loads(second)["network"]


@pytest.mark.parametrize(
    "words", [["run"], ["profile"], ["tune-batch", "--hp-name", "batch"]], ids=lambda words: words[0]
)
def test_a_wrong_word_names_the_help_of_its_own_verb(
    words: list[str], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, TORCH, script, "--cpus", "many"]) == UsageError.exit_code
    assert f"remedy: dlc {words[0]} --help" in capsys.readouterr().err


def test_every_option_is_in_the_documentation() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    document = (find_root() / "docs/running.md").read_text()
    options = [option for action in parser._actions for option in action.option_strings]
    assert "--hosts" in options
    assert [option for option in options if not re.search(rf"{option}\b", document)] == []


def test_the_example_in_the_help_is_a_command_line_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = find_root()
    (tmp_path / "buildspec").symlink_to(root / "buildspec")
    (tmp_path / "docker").symlink_to(root / "docker")
    (tmp_path / "train.py").touch()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main([*EXAMPLE.split()[1:], "--explain"]) == 0
