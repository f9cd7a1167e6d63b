"""dlc run up to the point where it finds no engine: what is wrong before, and what lint says of the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.__main__ import main
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


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], UsageError, "expected an image and a script"),
        ([TORCH], UsageError, "expected an image and a script"),
        (["pytorch-9", "SCRIPT"], SelectorError, "pytorch-9: no such image"),
        ([TORCH, "nowhere.py"], UsageError, "nowhere.py: expected the file of an entry point"),
        ([TORCH, "SCRIPT", "--hosts", "0"], UsageError, "--hosts: expected a whole number above 0, found '0'"),
        ([TORCH, "SCRIPT", "--hosts", "two"], UsageError, "--hosts"),
        ([TORCH, "SCRIPT", "--grace", "-1"], UsageError, "--grace"),
        ([TORCH, "SCRIPT", "--json"], UsageError, "expected --explain too"),
        ([TORCH, "SCRIPT", "more"], UsageError, "unrecognized arguments: more"),
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
    for named in ([script], ["train.py", *source]):
        main(["run", TORCH, *named, *words])  # no engine answers
        assert (NOTE in capsys.readouterr().err) is noted


def test_lint_says_nothing_of_a_script_that_is_no_python(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(script).write_text("def train(:\n")
    assert main(["run", TORCH, script, "--env", "DLC_COMPILER=inductor"]) == EngineError.exit_code
    assert "dlc lint" not in capsys.readouterr().err
