"""An unchanged TensorFlow script with a loop of its own is measured."""

from __future__ import annotations

from pathlib import Path

from profile_runs import Runner


def test_a_loop_over_a_dataset_is_measured_with_the_cpu_seconds_of_its_batches(tensorflow_runner: Runner) -> None:
    ended = tensorflow_runner.run("-m", "dlc_runtime.profile", "datasets.py")
    assert ended.code == 0, ended.log
    assert "trained to" in ended.log
    found = ended.report()
    assert (found["framework"], found["steps"], found["batch_bytes"]) == ("tensorflow", 80 - 3, 16)
    assert found["waiting_seconds"] > found["computing_seconds"]
    work = found["preprocessing"]
    assert work["batches"] == 80 - 2  # the first of each epoch is not whole
    assert 0.035 < work["cpu_seconds"] / work["batches"] < 0.08
    assert work["parallel"] is False


def test_keras_fit_is_measured_inside_its_graph(tensorflow_runner: Runner) -> None:
    """`fit` asks for no batch after an epoch's last, whose step so holds the validation and does not count."""
    ended = tensorflow_runner.run("-m", "dlc_runtime.profile", "keras_fit.py")
    assert ended.code == 0, ended.log
    assert "trained 2 epochs" in ended.log
    found = ended.report()
    assert (found["framework"], found["steps"], found["batch_bytes"]) == ("tensorflow", 80 - 3 - 2, 4 * (8 * 4 + 4))
    assert 0.035 < found["preprocessing"]["cpu_seconds"] / found["preprocessing"]["batches"] < 0.12
    assert found["preprocessing"]["parallel"] is True  # num_parallel_calls of its map


def test_steps_in_which_xla_compiles_or_tensorflow_traces_are_no_computing(
    tensorflow_runner: Runner, tmp_path: Path
) -> None:
    """The sixth step is the first with XLA. The last batch of an epoch is smaller, and is new in the first one."""
    asked = {"DLC_COMPILER": "xla", "DLC_COMPILER_MODE": "default", "DLC_COMPILER_REPORT": str(tmp_path / "compiler")}
    ended = tensorflow_runner.run("-m", "dlc_runtime.profile", "compiled_loop.py", **asked)
    assert ended.code == 0, ended.log
    assert " with xla (auto-clustering), after 5 steps" in ended.log
    found = ended.report()
    assert found["compiling"]["steps"] == 2
    assert found["compiling"]["seconds"] > 10 * found["step_seconds"]
    assert found["steps"] == 2 * 21 - 3 - found["compiling"]["steps"]
