"""What is compiled is compared with eager as long as the job runs: new shapes, new graphs, later steps, every mode."""

from __future__ import annotations

import re

import pytest
from test_ranks import TORCHRUN
from torch_runs import Run, Runner

SCRIPT = "checked.py"
LATE = re.compile(
    r"eager from step (\d+) on: Net: it differs from eager by 0\.01\d* in its outputs.*?; "
    r"it was as eager in step (\d+); steps (\d+) to (\d+) were trained with it"
)


def same(run: Run, eager: Run) -> None:
    for rank, expected in eager.results.items():
        assert run.results[rank]["losses"] == expected["losses"]


@pytest.mark.parametrize("what", ["shapes", "frozen"])
def test_a_graph_for_another_shape_or_made_again_is_compared_before_a_step_with_it(runner: Runner, what: str) -> None:
    eager = runner.run(SCRIPT, "same", what, compiler="")
    run = runner.run(SCRIPT, "wrong-second", what)
    same(run, eager)
    [line] = [line for line in run.log.splitlines() if "it differs from eager" in line and "eager from step" in line]
    assert "Net: it differs from eager by 0.25 in its outputs" in line
    assert "were trained with it" not in line


def test_what_becomes_wrong_later_is_found_and_the_steps_with_it_are_named(runner: Runner) -> None:
    run = runner.run(SCRIPT, "wrong-later")
    [warning] = [text for text in run.report["warnings"] if LATE.match(text)]
    assert f"dlc compiler: {warning}" in run.log
    first, last_good, begin, end = map(int, LATE.match(warning).groups())  # type: ignore[union-attr]
    assert (begin, end) == (last_good + 1, first - 1)
    assert last_good <= 40 < first < 400


def test_what_becomes_wrong_later_ends_a_strict_job(runner: Runner) -> None:
    run = runner.run(SCRIPT, "wrong-later", environ={"DLC_COMPILER_STRICT": "1"}, fails=True)
    assert run.code == 1
    assert "StrictError: DLC_COMPILER_STRICT=1: Net: it differs from eager by 0.01" in run.log


def test_all_ranks_leave_a_way_that_is_wrong_on_one(runner: Runner) -> None:
    """Rank 0, which writes the log, computes right and hears of it from rank 1."""
    run = runner.run(*TORCHRUN, SCRIPT, "wrong-later", "ranks")
    assert sorted(run.results) == [0, 1]
    assert re.search(r"from step \d+ on all modules run eager: Net: it differs from eager by 0\.01", run.log)


def test_what_cannot_be_compared_is_not_used_unless_the_job_says_so(runner: Runner) -> None:
    eager = runner.run(SCRIPT, "same", "uncomparable", compiler="")
    run = runner.run(SCRIPT, "wrong", "uncomparable")
    same(run, eager)
    assert "Again cannot be compared with eager: a hook of the script" in run.log
    assert "DLC_COMPILER_UNCHECKED=1 uses it all the same" in run.log
    used = runner.run(SCRIPT, "wrong", "uncomparable", environ={"DLC_COMPILER_UNCHECKED": "1"})
    assert "Again: not compared with eager, and used (DLC_COMPILER_UNCHECKED=1)" in used.log
    assert used.results[0]["losses"] != eager.results[0]["losses"]


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
def test_with_dropout_a_compiled_job_has_the_losses_of_an_eager_one(runner: Runner, form: str) -> None:
    """500 steps from one seed, compiled by inductor; the last batch of an epoch is smaller."""
    eager = runner.run("digits.py", "linear", "500", form, compiler="")
    run = runner.run("digits.py", "linear", "500", form)
    assert run.report["steps"]["after"]["steps"] > 400
    allowed = 1e-5 if form == "float32" else 2e-2
    assert run.losses == pytest.approx(eager.losses, rel=allowed)


def test_gradients_of_zero_by_inductor_are_refused(runner: Runner) -> None:
    """The MNIST example with dropout, in the versions of torch that compile its convolutions wrongly."""
    eager = runner.run("digits.py", "conv", "20", compiler="")
    run = runner.run("digits.py", "conv", "20")
    assert run.losses == pytest.approx(eager.losses, rel=1e-4)
