"""A script that was not changed trains the same model, compiled; what cannot be compiled stays eager and is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_runs import SCRIPTS, Runner, functions, numbers

SGD = 1e-5


def test_a_plain_loop_is_compiled_and_trains_the_same_model(runner: Runner) -> None:
    run = runner.both("plain.py")
    assert functions(run.report, "graphs") == {"Net"}
    assert run.report["graphs"][0]["file"].endswith("small_training.py")
    assert run.report["recompilations"] == run.report["graph_breaks"] == run.report["eager"] == []


def test_nothing_of_ours_runs_where_the_job_does_not_ask_for_the_compiler(runner: Runner) -> None:
    code = "import torch, sys; print(*sorted(name for name in sys.modules if name.startswith('dlc_runtime')))"
    for compiler in ("", "off"):
        run = runner.run("-c", code, compiler=compiler)
        assert run.log.split() in (
            [],
            ["dlc_runtime", "dlc_runtime.after_import", "dlc_runtime.compiler", "dlc_runtime.compiler.import_hook"],
        )


def test_a_class_of_torch_itself_is_compiled_and_shown_by_the_scripts_line_that_calls_it(runner: Runner) -> None:
    report = runner.both("sequential.py").report
    assert functions(report, "graphs") == {"Sequential"}
    places = {entry["file"] for part in ("graphs", "modules") for entry in report[part]}
    assert {Path(place).name for place in places} == {"small_training.py"}, places


def test_a_mask_into_which_an_operation_of_the_script_writes_stays(runner: Runner) -> None:
    assert functions(runner.both("mask_written.py").report, "graphs") == {"Attention"}


def test_a_mask_that_numpy_changes_is_read_in_each_forward(runner: Runner) -> None:
    assert functions(runner.both("mask_in_memory.py").report, "graphs") == {"Attention"}


@pytest.mark.parametrize("every", ["1", "5"])
def test_both_models_of_a_gan_are_compiled(runner: Runner, every: str) -> None:
    """The discriminator steps alone for several steps, or each time."""
    report = runner.both("gan.py", every, weights=SGD).report
    assert functions(report, "graphs") == {"Generator", "Discriminator"}
    assert report["eager"] == []


def test_what_is_differentiated_twice_stays_eager_and_the_rest_is_compiled(runner: Runner) -> None:
    report = runner.both("double_backward.py", "0", weights=SGD).report
    assert functions(report, "graphs") == {"Net"}
    assert [(entry["module"], "create_graph" in entry["reason"]) for entry in report["eager"]] == [("Critic", True)]


def test_a_function_that_is_never_called_keeps_no_model_eager(runner: Runner) -> None:
    report = runner.both("create_graph.py", "model", "99", weights=SGD).report
    assert functions(report, "graphs") == {"Net"}
    assert report["eager"] == []


@pytest.mark.parametrize("first", ["0", "9"])
def test_a_function_that_calls_a_model_and_differentiates_it_twice_calls_it_eager(runner: Runner, first: str) -> None:
    """From the first step on the model is known to be differentiated twice; later it is compiled in other calls."""
    report = runner.both("create_graph.py", "model", first, weights=SGD).report
    assert report["fallbacks"] == []
    assert [entry["module"] for entry in report["modules"]] == ([] if first == "0" else ["Net"])


def test_derivatives_by_functions_of_torch_are_those_of_eager(runner: Runner) -> None:
    """Compiled code has no second derivative, which `hessian` takes for zero, and no forward one."""
    eager, compiled = runner.run("derivatives.py", compiler=""), runner.run("derivatives.py")
    expected, found = (run.results[0]["derivatives"] for run in (eager, compiled))
    assert list(expected) == list(found)
    for name, values in expected.items():
        assert numbers(found[name]) == pytest.approx(numbers(values), rel=1e-3, abs=1e-5), name
    assert functions(compiled.report, "graphs") == {"Net"}
    assert compiled.report["warnings"] == compiled.report["eager"] == []


@pytest.mark.parametrize("first", ["0", "9"])
def test_a_graph_that_the_script_retains_is_used_twice(runner: Runner, first: str) -> None:
    assert functions(runner.both("retain.py", first, weights=SGD).report, "graphs") == {"Net"}


def test_a_second_backward_through_what_is_compiled_is_one_error_with_a_remedy(runner: Runner) -> None:
    run = runner.run("create_graph.py", "value", "9", fails=True)
    assert run.code == 1
    [line] = [line for line in run.log.splitlines() if "dlc compiler: the script differentiates" in line]
    assert line.endswith(
        "Remedy: call the model in the function that asks for create_graph=True, or set DLC_COMPILER=off"
    )
    assert line.removeprefix("dlc compiler: ") in run.report["warnings"]


def test_a_second_backward_that_comes_later_does_not_end_the_training(runner: Runner) -> None:
    report = runner.both("double_backward.py", "9", weights=SGD).report
    assert {entry["module"] for entry in report["eager"]} == {"Net", "Critic"}
    lines = (SCRIPTS / "double_backward.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "create_graph=True" in text)
    assert f"double_backward.py:{line} " in report["eager"][0]["reason"]


def test_around_an_lstm_the_parts_are_compiled(runner: Runner) -> None:
    report = runner.both("lstm.py").report
    assert functions(report, "graphs") == {"Sequential", "Net"}
    assert [(entry["module"], "LSTM" in entry["reason"]) for entry in report["eager"]] == [("Tagger", True)]


def test_hooks_are_called_as_in_eager_and_one_of_a_later_step_is_why_it_is_compiled_again(runner: Runner) -> None:
    run = runner.both("hooks.py")
    assert len(run.results[0]["early"]) == 12
    assert run.results[0]["late"] == 3
    reasons = [entry["reason"] for entry in run.report["graph_breaks"]]
    assert "hook <lambda> runs outside the graph" in reasons
    assert [entry["line"] for entry in run.report["graph_breaks"] if "hook <lambda>" in entry["reason"]] == [7]
    first, *later = run.report["recompilations"]
    assert (first["kind"], first["step"]) == ("hook", 10)
    assert first["cause"].startswith("the hooks of ")
    assert "small_training.py:" in first["cause"]
    assert {entry["kind"] for entry in later} <= {"collection"}  # the later hook appends


def test_hooks_of_many_modules_are_each_called_and_none_is_compiled(runner: Runner) -> None:
    run = runner.both("many_hooks.py", weights=1e-4)
    assert run.results[0]["collected"] == [16] * 25
    assert run.report["gave_up"] == run.report["fallbacks"] == []
    entries = [*run.report["graphs"], *run.report["recompilations"]]
    assert [entry for entry in entries if "dlc_runtime" in entry["file"]] == []
    assert "Remedy" not in run.log


def test_a_script_that_changes_the_weights_itself_is_told_that_nothing_is_compiled(runner: Runner) -> None:
    for how in ("data", "no_grad"):
        run = runner.both("by_hand.py", how, weights=SGD)
        assert "Net stays eager: no optimizer step was seen, the script changes the weights itself" in run.log
        assert "Nothing was compiled: Net stays eager: no optimizer step was seen, the script " in run.log
        assert [entry["module"] for entry in run.report["eager"]] == ["Net"]


def test_the_calls_of_a_closure_are_no_work_of_the_scripts_and_strict_mode_lets_lbfgs_train(runner: Runner) -> None:
    run = runner.both("lbfgs.py", environ={"DLC_COMPILER_STRICT": "1"})
    assert "no optimizer step was seen" not in run.log
    assert functions(run.report, "graphs") == {"Net"}
    assert run.report["eager"] == []
    assert run.report["steps"]["count"] == 12


def test_dropout_draws_the_same_numbers_as_eager(runner: Runner) -> None:
    report = runner.both("dropout.py").report
    assert functions(report, "graphs") == {"Sequential"}


def test_of_a_model_that_is_evaluated_first_the_training_is_compiled_and_the_evaluation_is_not(runner: Runner) -> None:
    report = runner.both("eval_first.py").report
    assert functions(report, "graphs") == {"Net"}
    assert report["recompilations"] == []


def test_copies_are_eager_and_need_nothing_of_ours(runner: Runner) -> None:
    found = runner.both("copies.py").results[0]
    assert found["compiled"]
    assert found["compiled_copies"] == [False, False, False]
    assert found["same_keys"]
    assert not found["needs_runtime"]
    assert found["spread"] < 1e-5


def test_the_workers_of_a_data_loader_do_not_compile(runner: Runner) -> None:
    assert runner.both("workers.py").results[0]["compiling"] == 0


@pytest.mark.parametrize("how", ["model", "in-place", "function"])
def test_what_the_script_compiles_itself_is_left_alone(runner: Runner, how: str) -> None:
    report = runner.both("own_compile.py", how).report
    assert report["modules"] == []
    assert [entry["reason"] for entry in report["eager"]] == ["the script compiles it itself"]
    assert report["graphs"] != []
    assert report["recompilations"] == []


def test_every_way_to_write_a_step_is_compiled_once(runner: Runner) -> None:
    report = runner.both("styles.py", weights=SGD).report
    assert "Student" in functions(report, "graphs")
    assert [entry["module"] for entry in report["modules"]] == ["Student"]
    assert [entry["module"] for entry in report["eager"]] == ["Net"]


def test_a_step_that_raised_and_one_that_calls_another_do_not_disturb_the_counting(runner: Runner) -> None:
    report = runner.both("odd_steps.py", weights=SGD).report
    assert [entry["module"] for entry in report["modules"]] == ["Net"]
    assert report["steps"]["count"] == 12


def test_a_second_model_is_compiled_and_the_first_is_not_compiled_again(runner: Runner) -> None:
    report = runner.both("folds.py").report
    assert [entry["module"] for entry in report["modules"]] == ["Net", "Net_2"]
    assert not [entry for entry in report["recompilations"] if entry["kind"] == "hook"]


def test_one_line_in_the_script_compiles_at_once(runner: Runner) -> None:
    eager = runner.run("prepared.py", compiler="off")
    asked = runner.run("prepared.py", compiler="")
    assert eager.results[0]["same"]
    assert eager.losses == pytest.approx(asked.losses, rel=1e-5)
    assert asked.report["steps"]["first_compiled_step"] == 1
    assert functions(asked.report, "graphs") == {"Net"}
