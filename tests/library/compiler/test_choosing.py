"""The way of a job's steps is chosen by measuring: never slower than eager, with the same model, on all ranks alike."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from test_ranks import TORCHRUN
from torch_runs import SCRIPTS, Run, Runner

AUTO = {"DLC_COMPILER_MODE": "auto"}
SCRIPT = "choosing.py"
# Five eager steps; one that compiles and one that does not; six pairs of blocks, and a step left out at each of seven
# turns. By the scripts' clock a block has four steps, and two where eager ones are slow.
DECIDED, SLOW_EAGER_DECIDED = 5 + 2 + 12 * 4 + 7, 5 + 2 + 12 * 2 + 7


def way(run: Run, name: str) -> dict[str, Any]:
    return next(entry for entry in run.report["ways"] if entry["way"] == name)


def same(run: Run, eager: Run) -> None:
    """Number by number, on each rank."""
    for rank, expected in eager.results.items():
        assert run.results[rank]["losses"] == expected["losses"]
        assert run.results[rank]["weights"] == expected["weights"]


def test_a_way_that_is_slower_is_left_within_the_stated_steps_and_the_next_job_does_not_try_it(
    runner: Runner, tmp_path: Path
) -> None:
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    first = runner.run(SCRIPT, "slow", "80", environ=environ)
    assert first.report["choosing"]["way"] == "eager"
    assert first.report["choosing"]["from_step"] == DECIDED + 1
    assert way(first, "slow")["outcome"] == "left: slower"
    assert way(first, "slow")["verdict"] == "0.50 to 0.50 times as fast"
    assert "eager from step" in first.log
    [note] = [note for note in first.report["notes"] if "fused steps" in note]  # by a clock that stands
    assert note.startswith("SGD: fused steps are not used: too few steps to tell")
    assert "By measuring in turns: eager from step" in first.log
    second = runner.run(SCRIPT, "slow", "20", environ=environ)
    assert second.report["choosing"]["kept"]
    assert second.report["choosing"]["from_step"] == 6
    assert second.report["graphs"] == second.report["modules"] == []


def test_a_job_with_a_changed_forward_measures_anew(runner: Runner, tmp_path: Path) -> None:
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    shutil.copytree(runner.scripts, tmp_path / "scripts")
    runner.scripts = tmp_path / "scripts"
    jobs = [runner.run(SCRIPT, "slow", "80", environ=environ)]
    script = tmp_path / "scripts" / SCRIPT
    for line in ("x = self.first(x)", "x = self.first(x) * 1.5"):
        script.write_text("# one more line\n" + script.read_text().replace("x = self.first(x)", line))
        jobs.append(runner.run(SCRIPT, "slow", "40", environ=environ))
    assert [job.report["choosing"]["kept"] for job in jobs] == [False, True, False]


def test_a_way_that_is_faster_is_taken_and_the_next_job_begins_with_it(runner: Runner, tmp_path: Path) -> None:
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    eager = runner.run(SCRIPT, "same", "80", "slow-eager", compiler="")
    first = runner.run(SCRIPT, "same", "80", "slow-eager", environ=environ)
    same(first, eager)
    assert first.report["choosing"]["way"] == "same"
    assert first.report["choosing"]["from_step"] == SLOW_EAGER_DECIDED + 1
    assert way(first, "same")["outcome"] == "taken"
    assert way(first, "same")["verdict"] == "2.00 to 2.00 times as fast"
    assert way(first, "same")["compared"].startswith("as eager: outputs within 0")
    second = runner.run(SCRIPT, "same", "20", "slow-eager", environ=environ)
    assert (second.report["choosing"]["kept"], second.report["choosing"]["from_step"]) == (True, 6)
    assert second.report["steps"]["after"]["steps"] >= 10


def test_a_way_that_computes_something_else_is_refused_with_the_largest_difference(runner: Runner) -> None:
    eager = runner.run(SCRIPT, "wrong", "30", compiler="")
    run = runner.run(SCRIPT, "wrong", "30", environ=AUTO)
    same(run, eager)
    assert "it differs from eager by 0.25 in its outputs" in way(run, "wrong")["outcome"]
    assert "wrong: compiling" in run.log


@pytest.mark.parametrize("fails", ["failing", "backward-1"])
def test_a_step_without_memory_in_a_trial_is_not_lost(runner: Runner, fails: str) -> None:
    """In the forward of the training's own step, and in the backward when it is compared with eager."""
    eager = runner.run(SCRIPT, fails, "30", "dropout", compiler="")
    run = runner.run(SCRIPT, fails, "30", "dropout", environ=AUTO)
    same(run, eager)
    assert "out of memory, says the test" in way(run, fails)["outcome"]
    assert run.report["choosing"]["way"] == "eager"


LOST = "its backward raised OutOfMemoryError: out of memory, says the test: only the script can repeat this step"


def test_a_later_backward_without_memory_ends_the_script_with_its_reason_and_the_next_job_stays_eager(
    runner: Runner, tmp_path: Path
) -> None:
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    first = runner.run(SCRIPT, "backward-2", "30", environ=environ, fails=True)
    assert first.code == 1
    assert f"dlc compiler: backward-2: {LOST}" in first.log
    assert way(first, "backward-2")["outcome"] == f"left: {LOST}"
    second = runner.run(SCRIPT, "backward-2", "30", environ=environ)
    assert (second.report["choosing"]["kept"], second.report["choosing"]["from_step"]) == (True, 6)
    assert second.report["choosing"]["words"] == f"eager from step 6 on: backward-2 was given up: {LOST}"


def test_a_script_that_goes_on_after_a_backward_without_memory_does_so_on_eager(runner: Runner) -> None:
    run = runner.run(SCRIPT, "backward-2", "30", "catches", environ=AUTO)
    assert len(run.losses) == 29
    assert way(run, "backward-2")["outcome"] == f"left: {LOST}"
    assert run.report["choosing"]["way"] == "eager"


def test_comparing_with_eager_leaves_no_trace(runner: Runner) -> None:
    """Neither in random numbers, nor in running statistics, nor in numbers that the module keeps."""
    eager = runner.run(SCRIPT, "same", "30", "dropout", compiler="")
    run = runner.run(SCRIPT, "same", "30", "dropout", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    same(run, eager)
    assert not any("fused steps" in note for note in run.report["notes"])
    assert way(run, "same")["compared"].startswith("as eager: outputs within 0, gradients within 0")
    counted = runner.run(SCRIPT, "same", "30", "counts", environ=AUTO)
    assert counted.results[0]["calls"] == 30


def test_nothing_that_a_module_keeps_from_step_to_step_is_changed_by_the_comparison(runner: Runner) -> None:
    """In tuples, nested lists, objects of the script's, tensors and weights that the forward changes itself."""
    eager = runner.run("keeps_state.py", compiler="")
    run = runner.run("keeps_state.py", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    same(run, eager)
    assert way(run, "same")["compared"].startswith("as eager: outputs within 0")


@pytest.mark.parametrize("where", ["hook", "gradient-hook"])
def test_hooks_of_the_script_do_not_see_the_comparison(runner: Runner, where: str) -> None:
    eager = runner.run("keeps_state.py", "same", where, compiler="")
    run = runner.run("keeps_state.py", "same", where, environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    same(run, eager)
    assert run.results[0]["counted"] == eager.results[0]["counted"]
    assert way(run, "same")["compared"].startswith("as eager: outputs within 0")


@pytest.mark.parametrize("where", ["dataclass", "attribute", "hook", "gradient-hook"])
def test_a_loss_is_compared_with_eager_wherever_it_is_and_with_hooks(runner: Runner, where: str) -> None:
    eager = runner.run("keeps_state.py", "wrong", where, compiler="")
    run = runner.run("keeps_state.py", "wrong", where, environ=AUTO)
    same(run, eager)
    assert "it differs from eager by 0.2" in way(run, "wrong")["outcome"]


def test_a_forward_that_raises_runs_once(runner: Runner) -> None:
    """The script catches its exception: running statistics count the batch once."""
    run = runner.both("raising.py", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    assert run.results[0]["batches"] == 30


def test_a_copy_that_trains_for_three_steps_leaves_the_main_models_choice(runner: Runner) -> None:
    eager = runner.run("looks_ahead.py", "slow-eager", "60", compiler="")
    run = runner.run("looks_ahead.py", "slow-eager", "60", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    same(run, eager)
    assert run.report["choosing"]["way"] == "same"
    assert run.report["choosing"]["from_step"] == SLOW_EAGER_DECIDED + 1
    assert run.report["steps"]["count"] == 80, "the copy's steps are none of the main model's"
    told = [line for line in run.log.splitlines() if line.startswith("dlc compiler: same from step")]
    assert len(told) == 1, run.log


def test_a_backward_hook_that_keeps_a_model_eager_is_named_with_its_line_and_nothing_more_is_measured(
    runner: Runner,
) -> None:
    run = runner.both("backward_hooks.py", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    lines = (SCRIPTS / "backward_hooks.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("def note_gradient"))
    told = [text for text in run.log.splitlines() if f"backward_hooks.py:{line})" in text]
    assert told[0].startswith("dlc compiler: inductor made no graph of Net: Dynamo compiles no call that runs hook ")
    tried = way(run, "inductor")
    assert (tried["steps"], tried["verdict"]) == (0, "")
    assert run.report["choosing"]["from_step"] == 7, "the step after the first one of the way"


def test_each_kind_of_repeated_block_is_compiled_once(runner: Runner) -> None:
    eager = runner.run(SCRIPT, "regional", "30", compiler="")
    run = runner.run(SCRIPT, "regional", "30", environ=AUTO)
    same(run, eager)
    assert [graph["function"] for graph in run.report["graphs"]] == ["Model.Block.regional"]
    assert way(run, "regional")["steps"] > 0


def test_a_budget_of_nothing_keeps_the_job_eager(runner: Runner) -> None:
    run = runner.run(SCRIPT, "same", "20", environ={**AUTO, "DLC_COMPILER_BUDGET": "0"})
    assert run.report["graphs"] == run.report["modules"] == []
    assert way(run, "same")["outcome"] == "not tried: choosing may take 0 s (DLC_COMPILER_BUDGET)"


def test_on_a_cpu_every_step_is_measured(runner: Runner) -> None:
    run = runner.run(SCRIPT, "same", "60")
    [rank] = run.report["ranks"]
    assert sum(stretch["steps"] for stretch in rank["steps"]["timeline"]) == 60 - 2  # two are watched


def test_all_ranks_choose_alike_at_the_same_step(runner: Runner) -> None:
    eager = runner.run(*TORCHRUN, SCRIPT, "slow", "80", "ranks", compiler="")
    run = runner.run(*TORCHRUN, SCRIPT, "slow", "80", "ranks", environ=AUTO)
    same(run, eager)
    lines = [line.partition("dlc compiler: ")[2] for line in run.log.splitlines() if "dlc compiler: eager from" in line]
    assert len(lines) == 2, run.log
    assert lines[0] == lines[1]
    assert lines[0].startswith(f"eager from step {DECIDED + 1} on: ")


def test_a_rank_that_hears_nothing_of_the_others_trains_on_eager(runner: Runner) -> None:
    """Rank 0 ends after 20 steps, before anything is decided; the launcher of both keeps the store."""
    run = runner.run(*TORCHRUN, SCRIPT, "same", "60", "ranks", "uneven", environ=AUTO)
    assert len(run.results[1]["losses"]) == 60
    assert "a rank got no answer from the others" in run.log


def test_what_scripts_keep_does_not_change_under_them(runner: Runner) -> None:
    """A way that writes over what it returned, as CUDA graphs do: the script names what is kept, in 16 scripts."""
    run = runner.both("keeps_outputs.py", weights=1e-6)
    assert run.report["fallbacks"] == []
    # A hook that comes late, and a list that grows, compile again.
    again = ("the hooks of self.body.1 are not those", "the number of elements in self.sums is not")
    assert [text for text in run.report["warnings"] if not any(words in text for words in again)] == []
    assert len(run.report["modules"]) == 16
    assert run.report["steps"]["after"]["steps"] >= 16 * 5


def test_a_step_between_a_forward_and_its_backward_leaves_the_memory_that_it_needs(runner: Runner) -> None:
    """The discriminator of a GAN steps while the outputs of the generator wait for their backward."""
    run = runner.both("gan_reused.py", weights=1e-6)
    assert run.report["fallbacks"] == []
    assert len(run.report["modules"]) == 2


def test_each_step_gives_memory_away_though_the_script_still_holds_its_results(runner: Runner) -> None:
    run = runner.both("results_alive.py", weights=1e-4)
    assert run.results[0]["marks"] >= 50
    assert run.report["warnings"] == run.report["fallbacks"] == []


def test_a_script_that_keeps_results_for_a_backward_that_never_comes_gets_another_way(runner: Runner) -> None:
    run = runner.both("results_alive.py", "never", weights=1e-4)
    assert any("for 32 steps the script kept results" in text for text in run.report["warnings"])


def test_a_way_that_reuses_memory_is_refused_where_a_hook_sees_gradients_in_it(runner: Runner) -> None:
    run = runner.both("keeps_outputs.py", "parameter-hook", weights=1e-6)
    assert "Net: a hook of head.weight may keep a gradient, and the next step would write over it" in run.log


def test_what_a_forward_keeps_is_no_trace_of_the_comparison(runner: Runner) -> None:
    """A list of losses that the script adds up and empties in each step, as of a mixture of experts."""
    eager = runner.run(SCRIPT, "same", "30", "keeps", compiler="")
    run = runner.run(SCRIPT, "same", "30", "keeps", environ={**AUTO, "DLC_COMPILER_OPTIMIZER": "off"})
    same(run, eager)
    assert way(run, "same")["compared"].startswith("as eager: outputs within 0")
