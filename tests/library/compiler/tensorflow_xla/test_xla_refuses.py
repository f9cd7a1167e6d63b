"""A step that XLA computes otherwise never trains; the matrix of faults and models is in test_xla_fault_matrix.py."""

from __future__ import annotations

import pytest
from fault_runs import losses, refused, train
from tensorflow_runs import Runner
from torch_runs import Run, TorchPython

WRONG = ["mlp:zero", "adam:half", "dropout:flipped", "norm:buffers", "loop:zero", "loop:outputs"]
LATER = ["mlp:shapes", "loop:shapes", "mlp:later", "loop:later"]
RIGHT = ["mlp:right", "dropout:right", "loop:right"]


@pytest.fixture(scope="module")
def runner(tensorflow_python: TorchPython, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    if "keras" not in tensorflow_python.has:
        pytest.skip("keras is not installed")
    return Runner(tensorflow_python, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def compiled(runner: Runner) -> Run:
    return train(runner, WRONG + LATER + RIGHT)


@pytest.fixture(scope="module")
def plain(runner: Runner) -> Run:
    return train(runner, WRONG + LATER + RIGHT, compiler="")


def test_what_differs_from_eager_is_refused_and_what_is_right_is_not(compiled: Run) -> None:
    assert refused(compiled) == {*WRONG, *LATER}


@pytest.mark.parametrize("case", [*WRONG, *RIGHT, "mlp:shapes", "loop:shapes"])
def test_no_optimizer_step_was_made_with_the_difference(plain: Run, compiled: Run, case: str) -> None:
    assert losses(compiled)[case] == pytest.approx(losses(plain)[case], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", ["mlp:later", "loop:later"])
def test_a_difference_that_comes_later_ends_xla_and_the_log_names_the_steps_since(compiled: Run, case: str) -> None:
    name = case.replace(":", "_")
    [line] = [line for line in compiled.log.splitlines() if line.startswith(f"dlc compiler: {name}: ")]
    assert "it differs from eager by" in line
    assert "The last good comparison was at its step" in line
    assert any(line.partition("compiler: ")[2] == warning for warning in compiled.report["warnings"])


def test_a_strict_job_ends_at_a_later_difference(runner: Runner) -> None:
    run = runner.run("faults.py", "mlp:later", environ={"DLC_COMPILER_STRICT": "1"}, fails=True)
    assert run.code == 1
    assert "StrictError: DLC_COMPILER_STRICT=1: mlp_later: jit_compile: it differs from eager by" in run.log


def test_what_cannot_be_compared_is_not_used_unless_the_job_says_so(runner: Runner) -> None:
    """Each run of `loop:draws` without XLA has other random numbers."""
    case = ["loop:draws"]
    left = train(runner, case)
    [entry] = left.report["eager"]
    assert "not compared with eager: two steps without XLA" in entry["reason"]
    assert "DLC_COMPILER_UNCHECKED=1" in entry["reason"]
    taken = train(runner, case, DLC_COMPILER_UNCHECKED="1")
    assert taken.report["eager"] == []
    [note] = [note for note in taken.report["notes"] if "DLC_COMPILER_UNCHECKED=1" in note]
    assert note in taken.log


def test_a_batch_of_a_data_set_is_taken_once_though_a_step_runs_twice(runner: Runner) -> None:
    """The step takes its batches itself, from an iterator that it was given."""
    case = ["iterator:right"]
    assert losses(train(runner, case))[case[0]] == pytest.approx(losses(train(runner, case, compiler=""))[case[0]])


def test_the_faults_are_real_without_the_comparison_they_train(runner: Runner) -> None:
    """The same script while nothing is found to differ."""
    run = train(runner, ["mlp:zero"], FAULTS_UNSEEN="1")
    right = train(runner, ["mlp:zero"], compiler="")
    assert refused(run) == set()
    assert losses(run)["mlp:zero"] != pytest.approx(losses(right)["mlp:zero"], rel=1e-3)
