"""An unchanged PyTorch script is measured: waits, CPU seconds of a batch in whatever process makes it, and the step."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from profile_runs import Runner

from dlc.advice.profile_report import read_profile

MODULE = ("-m", "dlc_runtime.profile", "loaders.py")
BATCH = 8 * 0.005  # CPU seconds that the script spends for each
# A started process imports torch; none of that may be counted, which takes seconds.
MOST = 2 * BATCH


@pytest.mark.parametrize(
    "how",
    [(), ("--workers", "2"), ("--workers", "2", "--context", "spawn"), ("--workers", "1", "--context", "forkserver")],
    ids=["in the process", "forked workers", "spawned workers", "workers of a fork server"],
)
def test_the_cpu_seconds_of_a_batch_are_found_whichever_process_makes_it(runner: Runner, how: tuple[str, ...]) -> None:
    ended = runner.run(*MODULE, *how)
    assert ended.code == 0, ended.log
    found = ended.report()
    assert found["preprocessing"]["batches"] == 40
    assert BATCH <= found["preprocessing"]["cpu_seconds"] / 40 < MOST
    assert found["preprocessing"]["workers"] == (int(how[1]) if how else 0)
    assert found["steps"] == 40 - 3  # all but the first, which also prepare
    assert found["batch_bytes"] == 8 * (32 * 4 + 8)
    assert found["framework"] == "torch"
    assert "worker_init_fn is None" in ended.log


def test_batches_of_an_iterable_dataset_are_counted_too(runner: Runner) -> None:
    found = runner.run(*MODULE, "--iterable", "--workers", "1").report()
    assert found["preprocessing"]["batches"] == 40
    assert BATCH <= found["preprocessing"]["cpu_seconds"] / 40 < MOST


def test_a_loop_that_waits_for_data_and_one_that_computes_are_told_apart(runner: Runner) -> None:
    waits = runner.run(*MODULE, "--sample", "0.005").report()
    computes = runner.run(*MODULE, "--sample", "0", "--step", "0.04").report()
    assert waits["waiting_seconds"] > 3 * waits["computing_seconds"]
    assert computes["computing_seconds"] > 3 * computes["waiting_seconds"]
    assert computes["step_seconds"] >= 0.04


def test_an_evaluation_between_two_steps_is_no_step_and_no_part_of_one(runner: Runner) -> None:
    """Each evaluation takes 20 batches and at least 0.3 s: no step may hold one, and theirs are not counted."""
    found = runner.run(*MODULE, "--evaluate-every", "5").report()
    assert found["preprocessing"]["batches"] == 40
    assert found["steps"] == 40 - 8 - 3  # without those with an evaluation, and without the first others


def test_steps_in_which_something_is_compiled_are_no_computing(runner: Runner) -> None:
    """Importing Dynamo and compiling take seconds; the other steps take hundredths."""
    found = runner.run(*MODULE, "--sample", "0", "--step", "0.02", "--compile-at", "6").report()
    assert found["compiling"]["steps"] == 1
    assert found["compiling"]["seconds"] > 10 * found["step_seconds"]
    assert found["steps"] == 40 - 3 - 1


def test_workers_without_a_processor_of_their_own_are_seen_in_a_line_for_it(runner: Runner) -> None:
    """Three workers compute on the one processor that the script may use."""
    argv = [runner.python, *MODULE, "--workers", "3"]
    code = f"import os; os.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}]); os.execv({argv[0]!r}, {argv!r})"
    ended = runner.run("-c", code)
    assert ended.code == 0, ended.log
    found = read_profile([runner.folder])
    assert found.queued > 0.4
    assert found.kind in ("processors", "others")  # others where the machine runs something else too


def test_measuring_ends_after_the_steps_asked_for_and_the_script_goes_on(runner: Runner) -> None:
    ended = runner.run(*MODULE, "--workers", "1", DLC_PROFILE_STEPS="10")
    assert "trained 2 epochs" in ended.log
    assert (ended.report()["steps"], ended.report()["state"]) == (10, "measured")


def test_each_rank_has_a_file_and_all_are_read_together(runner: Runner) -> None:
    for rank in ("0", "1"):
        assert runner.run(*MODULE, RANK=rank, LOCAL_RANK=rank).code == 0
    found = read_profile([runner.folder])
    assert len(found.ranks) == 2
    assert found.cpu is not None
    assert BATCH <= found.cpu < MOST
    assert found.workers_needed >= 1


def test_the_switch_measures_a_plain_python_that_the_images_line_armed(runner: Runner, tmp_path: Path) -> None:
    """The line is the one that an image has in its site-packages; here `sitecustomize` stands for it."""
    line = 'import os; os.environ.get("DLC_PROFILE") and __import__("dlc_runtime.profile.import_hook")\n'
    (tmp_path / "sitecustomize.py").write_text(line)
    sources = f"{tmp_path}{os.pathsep}{Path(__file__).parents[3] / 'src'}"
    assert runner.run("loaders.py", PYTHONPATH=sources).code == 0
    assert not runner.folder.exists()
    assert runner.run("loaders.py", PYTHONPATH=sources, DLC_PROFILE="1").report()["steps"] == 37


def test_a_wrong_value_is_said_and_the_script_runs_on_without(runner: Runner) -> None:
    ended = runner.run(*MODULE, "--sample", "0", DLC_PROFILE_STEPS="many")
    assert ended.code == 0
    assert "nothing will be measured: DLC_PROFILE_STEPS=many: expected a whole number from 1 on" in ended.log
    assert "trained 2 epochs" in ended.log


def test_a_folder_that_cannot_be_written_does_not_end_the_training(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = runner.run(*MODULE, "--sample", "0", DLC_PROFILE_REPORT=str(tmp_path / "file"))
    assert ended.code == 0
    assert ended.log.count("no report in") == 1


def test_nothing_is_left_behind(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    runner.run(*MODULE, "--workers", "2", "--sample", "0", TMPDIR=str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").glob("dlc-profile-*")) == []
    assert [file.name for file in runner.folder.iterdir()] == ["rank-0.json"]
    assert json.loads((runner.folder / "rank-0.json").read_text())["state"] == "ended"


def test_ranks_that_a_script_forks_itself_have_a_file_each(runner: Runner, tmp_path: Path) -> None:
    ended = runner.run("-m", "dlc_runtime.profile", "ranks.py", str(tmp_path / "store"))
    assert ended.code == 0, ended.log
    assert {(rank, ended.report(rank)["rank"], ended.report(rank)["state"]) for rank in (0, 1)} == {
        (0, 0, "ended"),
        (1, 1, "ended"),
    }


def test_a_trial_ends_the_script_once_enough_is_measured_and_says_its_memory(runner: Runner) -> None:
    ended = runner.run(*MODULE, "--workers", "1", DLC_PROFILE_STEPS="5", DLC_PROFILE_ENDS_JOB="1")
    assert ended.code == 0, ended.log
    assert "worker_init_fn is None" not in ended.log  # the script's last line
    found = ended.report()
    assert (found["state"], found["steps"], found["ranks"]) == ("measured", 5, 1)
    host = found["memory"]["host"]
    assert 20e6 < host["steady"] <= host["peak"] < 8e9
    assert found["memory"]["device"] is None
