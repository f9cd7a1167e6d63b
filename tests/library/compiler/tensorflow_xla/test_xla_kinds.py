"""One process trains model after model, each in another way: the same losses under XLA, and what became of each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tensorflow_runs import SCRIPTS, Runner
from torch_runs import Run, TorchPython

LEFT = ("false", "false_function", "own", "eagerly", "without_function", "own_function")
WHOLE = ("partial", "on_batch", "several", "evaluates", "noise")
PARTS = ("mirrored", "mirrored_loop", "shapes", "numbers", "gan", "random", "noise_loop", "of_graph")
KINDS = (*LEFT, *WHOLE, *PARTS, "lacks")


@pytest.fixture(scope="module")
def runner(tensorflow_python: TorchPython, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    if "keras" not in tensorflow_python.has:
        pytest.skip("keras is not installed")
    return Runner(tensorflow_python, tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def plain(runner: Runner) -> Run:
    return runner.run("kinds.py", *KINDS, compiler="")


@pytest.fixture(scope="module")
def compiled(runner: Runner) -> Run:
    return runner.run("kinds.py", *KINDS, "draws", "asserts")


def of(report: dict[str, Any], part: str, kind: str) -> list[dict[str, Any]]:
    """Entries about a Keras model's name, or about a function in the script's function of that name."""
    names = (kind, f"{kind}.")
    return [entry for entry in report[part] if entry["function"] == names[0] or entry["function"].startswith(names[1])]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_losses_step_by_step(plain: Run, compiled: Run, kind: str) -> None:
    expected, found = plain.results[0]["by_kind"][kind], compiled.results[0]["by_kind"][kind]
    assert len(expected) > 5
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", WHOLE)
def test_keras_is_compiled_as_a_whole(compiled: Run, kind: str) -> None:
    assert f"compiling {kind} with xla (jit_compile)" in compiled.log
    assert {graph["id"].partition("/")[0] for graph in of(compiled.report, "graphs", kind)} == {"one_step_on_data"}


@pytest.mark.parametrize("kind", PARTS)
def test_replicas_and_loops_are_compiled_in_clusters(compiled: Run, kind: str) -> None:
    assert any(f"compiling {kind}" in line and "(auto-clustering)" in line for line in compiled.log.splitlines())
    graphs = of(compiled.report, "graphs", kind)
    assert graphs
    assert all(graph["id"].startswith("cluster_") for graph in graphs)


def test_an_assertion_of_the_script_fails_as_without_xla(compiled: Run) -> None:
    """XLA leaves assertions out of what it compiles as a whole."""
    found = compiled.results[0]["by_kind"]["asserts"]
    assert [number for number, loss in enumerate(found) if loss == -1.0] == [5, 8]
    [line] = [line for line in compiled.log.splitlines() if "XLA would leave out the assertion" in line]
    assert line.startswith("dlc compiler: asserts: ")
    assert "kinds.py:" in line


def test_both_functions_of_a_gan_are_compiled(compiled: Run) -> None:
    assert {graph["function"] for graph in of(compiled.report, "graphs", "gan")} == {"gan.one_step", "gan.other_step"}


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("false", "the script says jit_compile=False"),
        ("false_function.false_step", "the script says jit_compile=False"),
        ("own", "the script compiles it itself"),
        ("own_function.own_step", "the script compiles it itself"),
        ("eagerly", "the script runs it eagerly (run_eagerly=True)"),
        ("the step at kinds.py:", "its step runs without tf.function, so there is no graph to compile"),
    ],
)
def test_what_is_left_alone_is_named_with_the_reason(compiled: Run, module: str, reason: str) -> None:
    [entry] = [entry for entry in compiled.report["eager"] if entry["module"].rstrip("0123456789") == module]
    assert entry["reason"] == reason


def test_a_step_without_tf_function_is_named_with_its_line(compiled: Run) -> None:
    lines = (SCRIPTS / "kinds.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "tape.gradient(loss, w))" in text)
    assert f"the step at kinds.py:{line}" in [entry["module"] for entry in compiled.report["eager"]]


def test_what_xla_lacks_is_named_and_the_rest_is_compiled_in_parts(compiled: Run) -> None:
    """The batch of the step that failed is trained on: the losses are the same."""
    [entry] = compiled.report["fallbacks"]
    assert (entry["function"], entry["reason"]) == ("lacks", "XLA lacks AsString")
    assert any(graph["id"].startswith("cluster_") for graph in of(compiled.report, "graphs", "lacks"))
    assert "skipped" not in compiled.log


def test_a_step_that_xla_refuses_is_told_with_the_user_s_line_and_no_frame_of_ours(compiled: Run) -> None:
    [entry] = compiled.report["fallbacks"]
    lines = (SCRIPTS / "kinds.py").read_text().splitlines()
    assert Path(entry["failed_file"]).name == "kinds.py"
    assert "tf.strings." in lines[entry["failed_line"] - 1]
    [said] = [line for line in compiled.log.splitlines() if "XLA lacks AsString" in line]
    assert f"kinds.py:{entry['failed_line']})" in said
    assert "dlc_runtime/compiler" not in compiled.log


def test_a_function_that_says_no_to_xla_is_compiled_neither_beside_one_that_is(compiled: Run) -> None:
    """Auto-clustering is switched for the whole process: another function has it on."""
    functions = {graph["function"] for graph in of(compiled.report, "graphs", "false_function")}
    assert functions == {"false_function.other_step"}


def test_a_smaller_last_batch_is_compiled_anew_and_its_shape_is_named(compiled: Run) -> None:
    [entry] = of(compiled.report, "recompilations", "partial")
    assert entry["kind"] == "shape"
    assert entry["cause"] == "one_step_on_data: argument 0 is float32[2,8], it was float32[4,8]"
    assert "drop the last smaller batch" in entry["remedy"]


def test_what_keras_compiles_without_a_trace_is_named_with_its_shape(compiled: Run) -> None:
    """After the second trace Keras takes any shape, and XLA compiles for each."""
    causes = [entry["cause"] for entry in of(compiled.report, "recompilations", "on_batch")]
    assert causes == [
        f"one_step_on_data: argument 0 is float32[{new},8], it was float32[{old},8]"
        for old, new in [(4, 5), (5, 6), (6, 7)]
    ]


def test_a_function_that_is_traced_for_each_shape_is_a_storm_with_its_cause(compiled: Run) -> None:
    again = of(compiled.report, "recompilations", "shapes")
    assert len(again) == 4
    assert {entry["kind"] for entry in again} == {"shape"}
    assert "'x' is a float32 tensor of shape (5, 8), it was a float32 tensor of shape (4, 8)" in again[0]["cause"]
    storms = [line for line in compiled.log.splitlines() if "compiled again 3 times" in line]
    assert any("shapes.shapes_step" in line and "drop_last=True" in line for line in storms)
    assert Path(again[0]["file"]).name == "kinds.py"


def test_a_python_value_that_changes_is_named(compiled: Run) -> None:
    [entry] = of(compiled.report, "recompilations", "numbers")
    assert (entry["kind"], entry["cause"]) == ("number", "'rate' is the Python value 0.05, it was the Python value 0.1")
    assert "tf.Variable" in entry["remedy"]


def test_random_numbers_that_xla_draws_otherwise_are_noted(compiled: Run) -> None:
    """Those of `noise` and `noise_loop` are the same."""
    notes = [note for note in compiled.report["notes"] if "XLA draws otherwise" in note]
    assert [note.split()[0] for note in notes] == ["random.random_step", "draws"]


@pytest.mark.parametrize("kind", ["several", "mirrored", "mirrored_loop", "gan", "evaluates", "lacks"])
def test_what_is_compiled_once_is_not_reported_as_compiled_again(compiled: Run, kind: str) -> None:
    assert of(compiled.report, "recompilations", kind) == []


@pytest.mark.parametrize(
    ("kind", "says"),
    [("lacks", "XLA lacks AsString"), ("without_function", "without tf.function"), ("eagerly", "run_eagerly=True")],
)
def test_strict_mode_fails_where_something_is_not_compiled(runner: Runner, kind: str, says: str) -> None:
    run = runner.run("kinds.py", kind, environ={"DLC_COMPILER_STRICT": "1"}, fails=True)
    assert run.code == 1
    assert any("StrictError: DLC_COMPILER_STRICT=1" in line and says in line for line in run.log.splitlines())


def test_sparse_and_ragged_batches_can_be_given_to_a_step_again_too(tensorflow_python: TorchPython) -> None:
    done = subprocess.run([tensorflow_python.path, SCRIPTS / "kept.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    batches = [[[[1.0, 0.0], [0.0, 2.0]], [[1.0], [2.0, 3.0]], [1.0, 2.0]], [[[3.0, 0.0]], [[]], [3.0]]]
    assert json.loads(done.stdout) == [[batches, batches], True]
