"""The report and the log say what was compiled, why again, what was not, and what it was worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_runs import SCRIPTS, Runner, functions

STATIC = {"DLC_COMPILER_DYNAMIC": "0"}


@pytest.mark.parametrize(
    ("how", "environ", "kind", "cause", "remedy"),
    [
        ("shape", STATIC, "shape", "x has size", "max_length"),
        ("number", {}, "number", "self.calls is not", "do not change this number"),
        ("list", {}, "collection", "self.kept", "do not collect"),
    ],
)
def test_a_storm_of_recompilations_is_named_with_its_cause_and_remedy_while_it_happens(
    runner: Runner, how: str, environ: dict[str, str], kind: str, cause: str, remedy: str
) -> None:
    run = runner.both("again.py", how, environ=environ, weights=1e-5)
    again = run.report["recompilations"]
    assert len(again) >= 3
    assert {entry["kind"] for entry in again} == {kind}
    assert all(cause in entry["cause"] for entry in again), again
    assert all(entry["file"].endswith("again.py") for entry in again)
    storm = next(line for line in run.log.splitlines() if "compiled again 3 times" in line)
    assert remedy in storm
    given_up = run.report["gave_up"]
    assert [(entry["function"], entry["kind"]) for entry in given_up] == [("Model", kind)]
    assert (
        run.log.index("compiled again 3 times") < run.log.index("Dynamo gave up on Model") < run.log.index("Report: ")
    )


@pytest.mark.parametrize(("how", "text"), [("print", 'print("shape"'), ("item", "x.sum().item()")])
def test_a_graph_break_is_named_with_its_line(runner: Runner, how: str, text: str) -> None:
    report = runner.both("again.py", how, weights=1e-5).report
    breaks = {(Path(entry["file"]).name, entry["line"]): entry["reason"] for entry in report["graph_breaks"]}
    lines = (SCRIPTS / "again.py").read_text().splitlines()
    line = next(number for number, found in enumerate(lines, 1) if text in found)
    assert how in breaks["again.py", line]


def test_seconds_per_step_are_those_of_the_three_phases(runner: Runner) -> None:
    run = runner.run("plain.py")
    steps = run.report["steps"]
    assert [steps[phase]["steps"] for phase in ("eager", "warm_up", "after")] == [5, 1, 6]
    assert steps["warm_up"]["median_seconds"] > steps["after"]["median_seconds"] > 0
    assert steps["first_compiled_step"] == 6
    assert run.report["compile_seconds"] <= steps["warm_up"]["seconds"]
    *_, verdict, advice, details, where = run.log.splitlines()
    assert "Compiled without measuring whether that is faster than eager" in verdict
    assert "To change: " in advice
    assert "Compiled Net: 1 graph in" in details
    assert "too short to say" in details
    assert "Report: " in where


def test_what_does_not_compile_runs_eager_and_is_named(runner: Runner) -> None:
    run = runner.both("uncompilable.py")
    assert run.report["fallbacks"] != []
    assert "there is no shape for this" in json.dumps(run.report["fallbacks"] + run.report["graph_breaks"])


def test_a_call_that_does_not_compile_is_told_once(runner: Runner) -> None:
    run = runner.run("uncompilable.py")
    told = [line for line in run.log.splitlines() if "runs eager, it does not compile" in line]
    assert len(told) == len(run.report["fallbacks"]) == 1, told


def test_the_scripts_own_exception_is_not_taken_for_a_fault_of_compiling(runner: Runner) -> None:
    run = runner.both("raises.py", weights=1e-5)
    assert run.results[0]["refused"] == 1
    assert run.report["fallbacks"] == []
    assert "does not compile" not in run.log


@pytest.mark.parametrize(
    ("mode", "bound"),
    [
        ("default", "the job asked for compiling without a budget"),
        ("auto", "choosing may take 60 s (DLC_COMPILER_BUDGET)"),
    ],
)
def test_what_takes_long_to_compile_is_told_while_it_takes_with_its_budget_and_the_way_out(
    runner: Runner, tmp_path: Path, mode: str, bound: str
) -> None:
    cold = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cold")}
    run = runner.run("told.py", environ={**cold, "DLC_COMPILER_MODE": mode})
    told = [line for line in run.log.splitlines() if "still compiling Net, " in line]
    assert told[0].endswith(
        f" s; {bound}; DLC_COMPILER=off trains without it, DLC_COMPILE_CACHE=FOLDER spares the next job most of it"
    )
    assert run.log.index("compiling Net with inductor") < run.log.index(told[0]) < run.log.index("Report: ")
    assert run.report["compiling"] == []


def test_a_fault_of_ours_does_not_end_the_training(runner: Runner) -> None:
    run = runner.both("odd_output.py", weights=1e-5)
    assert "nothing more is compiled or reported: RuntimeError: this output is not to be taken apart" in run.log
    assert run.report["modules"] == []


def test_without_a_c_compiler_the_model_stays_eager(runner: Runner) -> None:
    run = runner.both("plain.py", environ={"CXX": "no-such-compiler"})
    assert run.report["graphs"] == []
    assert [entry["module"] for entry in run.report["eager"]] == ["Net"]
    assert run.report["steps"]["eager"]["steps"] == 12
    assert run.report["steps"]["first_compiled_step"] is None
    assert "there is no C++ compiler here (no-such-compiler)" in run.log
    assert "Nothing was compiled in 12 steps: Net: there is no C++ compiler here" in run.log


@pytest.mark.parametrize(
    ("script", "environ", "says"),
    [
        (("plain.py",), {"CXX": "no-such-compiler"}, "there is no C++ compiler"),
        (("lstm.py",), {}, "LSTM"),
        (("uncompilable.py",), {}, "there is no shape for this"),
        (("again.py", "number"), {}, "gave up"),
        (("by_hand.py", "data"), {}, "no optimizer step was seen"),
    ],
)
def test_strict_mode_fails_where_something_stays_eager(
    runner: Runner, script: tuple[str, ...], environ: dict[str, str], says: str
) -> None:
    run = runner.run(*script, environ={"DLC_COMPILER_STRICT": "1", **environ}, fails=True)
    assert run.code == 1
    assert says in run.log


def test_strict_mode_lets_a_model_that_compiles_train(runner: Runner) -> None:
    assert functions(runner.run("plain.py", environ={"DLC_COMPILER_STRICT": "1"}).report, "graphs") == {"Net"}


def test_a_report_that_cannot_be_written_does_not_end_the_training(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = runner.run("plain.py", environ={"DLC_COMPILER_REPORT": str(tmp_path / "file/report")})
    assert len(run.losses) == 12
    assert run.log.count("no report in") == 1


def test_a_value_that_is_not_understood_is_said_and_nothing_is_compiled(runner: Runner) -> None:
    run = runner.run("plain.py", compiler="tvm")
    assert "nothing will be compiled: DLC_COMPILER=tvm: expected one of inductor, xla, off" in run.log
    assert len(run.losses) == 12
