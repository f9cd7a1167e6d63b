"""A TensorFlow script that was not changed trains the same model under XLA; what is not compiled is named."""

from __future__ import annotations

import pytest
from tensorflow_runs import Runner
from torch_runs import functions


@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_fit_is_compiled_as_a_whole(tensorflow_runner: Runner, keras: str) -> None:
    if keras not in tensorflow_runner.python.has:
        pytest.skip(f"{keras} is not installed")
    run = tensorflow_runner.both("fit.py", keras)
    assert "with xla (jit_compile), after 5 steps" in run.log
    assert [entry["module"] for entry in run.report["modules"]] == ["sequential"]
    assert functions(run.report, "graphs") == {"sequential"}
    assert run.report["recompilations"] == run.report["eager"] == run.report["fallbacks"] == []
    steps = run.report["steps"]
    assert [steps[phase]["steps"] for phase in ("eager", "warm_up", "after")] == [5, 1, 6]
    assert run.report["compile_seconds"] > 0


@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_a_model_that_was_saved_and_loaded_trains_on_and_is_compiled(tensorflow_runner: Runner, keras: str) -> None:
    if keras not in tensorflow_runner.python.has:
        pytest.skip(f"{keras} is not installed")
    run = tensorflow_runner.both("fit.py", keras, "reloaded")
    assert len(run.losses) == 24
    assert len(run.report["modules"]) == 2


def test_a_loop_with_tf_function_is_compiled_in_clusters(tensorflow_runner: Runner) -> None:
    run = tensorflow_runner.both("loop.py", weights=1e-5)
    assert "with xla (auto-clustering), after 5 steps" in run.log
    [module] = run.report["modules"]
    assert (module["module"], module["file"].rpartition("/")[2]) == ("step", "loop.py")
    assert functions(run.report, "graphs") == {"step"}
    assert all(graph["id"].startswith("cluster_") for graph in run.report["graphs"])
    assert run.report["recompilations"] == run.report["eager"] == []


def test_one_line_in_the_script_compiles_from_its_second_step_on(
    tensorflow_runner: Runner,
) -> None:
    plain = tensorflow_runner.run("fit.py", "tf.keras", compiler="")
    run = tensorflow_runner.run("fit.py", "tf.keras", "prepared", compiler="")
    assert run.losses == pytest.approx(plain.losses, rel=1e-5)
    assert run.report["steps"]["first_compiled_step"] == 2
    assert len(run.report["graphs"]) == 1
    off = tensorflow_runner.run("fit.py", "tf.keras", "prepared", compiler="off")
    assert off.losses == plain.losses
    assert not (off.folder / "report").exists()


def test_a_session_of_tensorflow_1_is_compiled_in_clusters_if_the_job_asks_for_it(tensorflow_runner: Runner) -> None:
    plain = tensorflow_runner.run("graphs.py", compiler="")
    run = tensorflow_runner.run("graphs.py", environ={"DLC_COMPILER_DEBUG": "1", "DLC_COMPILER_MODE": "default"})
    assert run.losses == pytest.approx(plain.losses, rel=1e-5)
    assert "compiling the graphs of each Session with xla (auto-clustering)" in run.log
    assert list((run.folder / "report/xla").glob("*/*cluster_*before_optimizations.txt"))


def test_a_session_of_tensorflow_1_stays_without_xla_as_nothing_can_be_measured(tensorflow_runner: Runner) -> None:
    plain = tensorflow_runner.run("graphs.py", compiler="")
    run = tensorflow_runner.run("graphs.py", environ={"DLC_COMPILER_DEBUG": "1", "DLC_COMPILER_MODE": "auto"})
    assert run.losses == plain.losses
    assert "the graphs of a tf.Session run without XLA" in run.log
    assert not list((run.folder / "report").glob("xla/*/*cluster_*"))
