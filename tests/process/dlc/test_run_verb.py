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
from dlc.core.errors import EngineError, SelectorError, UsageError

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
    words = ["run", "--group", "data=2", "--group", "dnn=1", "--output", str(results), "--explain", TORCH, script]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.count("docker run --pull never") == 3
    assert '"current_group_name": "dnn"' in text
    assert not results.exists()
    assert not (tmp_path / "cache").exists()


def test_explain_prints_json_for_programs(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--hosts", "2", "--hp", "lr=0.1", "--explain", "--json", TORCH, script]) == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["containers"]
    assert first["command"].endswith(f"dlc/pytorch:{TORCH.removeprefix('pytorch-')} train")
    assert second["config"]["resourceconfig.json"]["current_host"] == "algo-2"
    assert second["config"]["hyperparameters.json"]["lr"] == "0.1"


def test_options_may_stand_between_image_and_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--explain", TORCH, "--hosts", "2", script]) == 0
    assert "algo-2" in capsys.readouterr().out


def test_what_is_behind_two_dashes_reaches_the_script_as_it_is_typed(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    passed_on = ["--hosts", "5", "-x", "--", "a b", ""]
    assert main(["run", "--hosts", "2", "--explain", "--json", TORCH, script, "--", *passed_on]) == 0
    found = json.loads(capsys.readouterr().out)["containers"]
    assert len(found) == 2
    assert all(each["command"].endswith(" train --hosts 5 -x -- 'a b' ''") for each in found)


def test_a_report_takes_no_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(tmp_path), "--", "5"]) == UsageError.exit_code
    assert "expected ID SCRIPT before the --" in capsys.readouterr().err


def test_two_jobs_have_different_names(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["run", "--explain", "--json", TORCH, script]) == 0
    first, _, second = capsys.readouterr().out.partition("\n}\n")
    assert json.loads(first + "}")["network"] != json.loads(second)["network"]


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], UsageError, "expected an image and a script"),
        ([TORCH], UsageError, "expected an image and a script"),
        (["pytorch-9", "SCRIPT"], SelectorError, "pytorch-9: no such image"),
        ([TORCH, "nowhere.py"], UsageError, "nowhere.py: expected the file of an entry point"),
        (["--hosts", "0", TORCH, "SCRIPT"], UsageError, "--hosts: expected a whole number above 0, found '0'"),
        (["--hosts", "two", TORCH, "SCRIPT"], UsageError, "--hosts"),
        ([TORCH, "--grace", "-1", "SCRIPT"], UsageError, "--grace"),
        (["--json", TORCH, "SCRIPT"], UsageError, "expected --explain too"),
        (["--lr", "0.1", TORCH, "SCRIPT"], UsageError, "unrecognized arguments: --lr"),
        ([TORCH, "SCRIPT"], EngineError, "no engine answers there"),
        (["--remove", "/etc/hostname"], UsageError, "--remove /etc/hostname: expected the name of a job"),
        (["--remove", "../jobs"], UsageError, "expected the name of a job"),
        (["--remove", "j"], EngineError, "no engine answers there"),
    ],
)
def test_what_is_wrong_is_one_message_and_starts_nothing(
    words: list[str], code: type[UsageError], expected: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *(script if word == "SCRIPT" else word for word in words)]) == code.exit_code
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["run"], ["profile"], ["tune-batch", "--hp-name", "batch"]], ids=lambda words: words[0]
)
def test_a_wrong_word_names_the_help_of_its_own_verb(
    words: list[str], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--cpus", "many", TORCH, script]) == UsageError.exit_code
    assert f"remedy: dlc {words[0]} --help" in capsys.readouterr().err


PRINTS = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        print("forward", x)
        return self.layer(x)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
NOTE = "dlc: dlc lint, because the job asks for a compiler:\ndlc: train.py:9:9: DLC113 print in the model"


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["--env", "DLC_COMPILER=inductor"], True),
        (["--hp", "sagemaker_training_compiler_enabled=true"], True),
        (["--hp", "sagemaker_training_compiler_enabled=true", "--env", "DLC_COMPILER=off"], False),
        ([], False),
    ],
)
def test_a_job_that_asks_for_a_compiler_is_told_what_lint_finds(
    words: list[str], noted: bool, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(script).write_text(PRINTS)
    source = ["--source", str(Path(script).parent)]
    for named in ([TORCH, script], [*source, TORCH, "train.py"]):
        main(["run", *words, *named])  # no engine answers
        assert (NOTE in capsys.readouterr().err) is noted


def test_lint_says_nothing_of_a_script_that_is_no_python(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(script).write_text("def train(:\n")
    assert main(["run", "--env", "DLC_COMPILER=inductor", TORCH, script]) == EngineError.exit_code
    assert "dlc lint" not in capsys.readouterr().err


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
    verb, *words = EXAMPLE.split()[1:]
    assert main([verb, "--explain", *words]) == 0
