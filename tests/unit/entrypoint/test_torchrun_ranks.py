"""Ranks below torchrun: their lines are told apart, and the first that failed gives the job its exit code."""

from __future__ import annotations

import os

import pytest

from launch.base import process_spec
from launch.base.errors import FAILED, Failure
from launch.coordination.membership import as_verdict, end_of
from launch.supervision.failure_cause import root_cause

OWN = Failure("torchrun rank 2 on algo-2 exited with code 1", "torchrun", 2, "algo-2", 1, "", ("its report",))

REPORT = """\
[algo-2:2] fine
[algo-2:3] Traceback (most recent call last):
[algo-2:3] ValueError: no
E1120 14:21:25.960000 3343 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code})
============================================================
/opt/dlc/entrypoint/programs/torch_rank.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_14:21:25
  host      : localhost
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 3632)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 3632
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_14:21:25
  host      : localhost
  rank      : 3 (local_rank: 1)
  exitcode  : {code} (pid: 3633)
  error_file: <N/A>
  traceback : To enable traceback see: torchrun's documentation
============================================================
"""


def test_the_rank_that_failed_first_is_the_failure() -> None:
    assert root_cause(OWN, REPORT.format(code=7)) == Failure(
        "worker rank 3 on algo-2 exited with code 7",
        "worker",
        3,
        "algo-2",
        7,
        "",
        ("Traceback (most recent call last):", "ValueError: no"),
    )


@pytest.mark.parametrize(("code", "name", "exit_code"), [(-9, "SIGKILL", 137), (-6, "SIGABRT", 134)])
def test_a_rank_that_a_signal_ended_has_the_signals_name_and_code(code: int, name: str, exit_code: int) -> None:
    failure = root_cause(OWN, REPORT.format(code=code))
    assert (failure.signal, failure.exit_code) == (name, exit_code)
    assert failure.cause == f"worker rank 3 on algo-2 was ended by {name}"


def test_a_signal_without_a_name_is_a_number() -> None:
    assert root_cause(OWN, REPORT.format(code=-200)).cause.endswith("signal 200")


def test_what_else_is_known_of_the_cause_is_kept() -> None:
    failure = OWN._replace(cause=f"{OWN.cause}: out of memory")
    assert root_cause(failure, REPORT.format(code=-9)).cause.endswith("was ended by SIGKILL: out of memory")


def test_without_a_report_torchruns_own_failure_stays() -> None:
    assert root_cause(OWN, "torchrun: error: unrecognized arguments") == OWN


MPIRUN = Failure("mpirun rank 0 on algo-1 exited with code 5", "mpirun", 0, "algo-1", 5, "", ("its report",))


def test_mpiruns_report_names_the_rank_and_its_host() -> None:
    report = "[algo-2:3] no data\nmpirun detected...\n  Process name: [[62080,1],3]\n  Exit code:    5\n-----\n"
    expected = ("worker rank 3 on algo-2 exited with code 5", "worker", 3, "algo-2", 5, "", ("no data",))
    assert root_cause(MPIRUN, report)[:7] == expected


def test_the_report_of_open_mpi_5_names_the_rank_and_its_host() -> None:
    report = "[algo-2:3] no data\n   Process name: [prterun-algo-1-12@1,3]\n   Exit code:    5\n-----\n"
    expected = ("worker rank 3 on algo-2 exited with code 5", "worker", 3, "algo-2", 5, "", ("no data",))
    assert root_cause(MPIRUN, report)[:7] == expected


def test_why_mpirun_could_not_start_a_host_is_the_cause_and_not_what_mpirun_guesses_at() -> None:
    report = "dlc: mpirun: algo-2, port 7791: no answer\n----\nThis usually is caused by:\n* not finding libraries\n"
    failure = root_cause(MPIRUN, report)
    assert failure.cause == f"{MPIRUN.cause}: algo-2, port 7791: no answer"
    assert (failure.exit_code, failure.last_lines) == (69, ())


def test_mpiruns_report_names_the_signal_that_ended_a_rank() -> None:
    report = "mpirun noticed that process rank 1 with PID 0 on node algo-2 exited on signal 9 (Killed)."
    failure = root_cause(MPIRUN._replace(exit_code=137), report)
    assert (failure.rank, failure.signal, failure.exit_code) == (1, "SIGKILL", 137)


def test_a_rank_of_mpi_whose_host_is_unknown_is_not_said_to_be_on_mpiruns() -> None:
    report = "mpirun detected...\n  Process name: [[62080,1],3]\n  Exit code:    7\n-----\n"
    failure = root_cause(MPIRUN, report)
    assert (failure.cause, failure.host) == ("worker rank 3 exited with code 7", "")
    told = root_cause(MPIRUN, f"[algo-2:3] dlc: ended without a word, code 7\n{report}")
    assert (told.cause, told.host) == ("worker rank 3 on algo-2 exited with code 7", "algo-2")


def test_every_host_says_that_the_job_failed_where_mpis_rank_was_and_not_where_mpirun_is() -> None:
    report = "Process name: [[1,1],3]\n  Exit code:    7"
    end = end_of(root_cause(MPIRUN, f"[algo-2:3] dlc: ended without a word, code 7\n{report}"), FAILED)
    failure = as_verdict(end).outcome.failure
    assert failure
    assert failure.cause == "the job failed on algo-2: worker rank 3 on algo-2 exited with code 7"
    assert failure.exit_code == 7


def test_a_rank_that_left_mpi_with_0_is_named() -> None:
    report = "mpirun has exited due to process rank 1 with PID 0 on\nnode algo-2 exiting improperly. There are three"
    failure = root_cause(MPIRUN._replace(exit_code=1), report)
    assert failure.cause == "worker rank 1 on algo-2 left without MPI_Finalize"


def test_a_stop_request_stays_the_cause_whatever_torchrun_reports() -> None:
    stopped = OWN._replace(cause="stopped by SIGTERM: torchrun rank 2 on algo-2 (exit code 1)")
    assert root_cause(stopped, REPORT.format(code=-15)).cause == stopped.cause


def test_a_stopped_mpirun_counts_as_ended_by_the_signal() -> None:
    stopped = MPIRUN._replace(cause="stopped by SIGTERM: mpirun rank 0 on algo-1 exited with code 1", exit_code=1)
    assert root_cause(stopped, "") == stopped._replace(exit_code=143, signal="SIGTERM")


def test_the_program_that_torchrun_executes_is_executable() -> None:
    assert os.access(process_spec.program_path("torch_rank"), os.X_OK)


def test_a_stopped_torchrun_counts_as_ended_by_the_signal_with_its_ranks_last_words() -> None:
    stopped = OWN._replace(cause="stopped by SIGTERM: torchrun rank 2 on algo-2 exited with code 1")
    output = (
        "epoch 3\n"
        "W1120 14:39:35.262000 14 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal\n"
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 14 got signal: 15\n"
    )
    failure = root_cause(stopped, output)
    assert (failure.exit_code, failure.signal, failure.last_lines) == (143, "SIGTERM", ("epoch 3",))
    assert failure.cause == stopped.cause


@pytest.mark.parametrize(
    "own",
    [
        "E1120 14:38:43.532000 8 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 7)\n",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 7) local_rank: 0 (pid: 13)\n",
    ],
    ids=["PyTorch 2", "PyTorch 1.10"],
)
def test_last_words_of_a_lone_rank_are_those_before_torchruns_own(own: str) -> None:
    report = "\n".join(line for line in REPORT.format(code=7).splitlines() if not line.startswith("[algo-"))
    failure = root_cause(OWN, f"ValueError: no parquet file\n{own}{report}")
    assert failure.exit_code == 7
    assert failure.last_lines == ("ValueError: no parquet file",)


def test_a_rank_that_lost_another_one_and_ended_before_it_is_not_the_reason() -> None:
    """mpirun and torchrun see the one that took longer to end second."""
    report = """\
[algo-1:0] Traceback (most recent call last):
[algo-1:0]   File "/opt/ml/code/train.py", line 9, in <module>
[algo-2:3] Traceback (most recent call last):
[algo-2:3]   File "/opt/ml/code/train.py", line 10, in <module>
[algo-1:0] errors_impl.UnknownError: {{function_node __wrapped__}} Horovod has been shut down.
[algo-2:3] ValueError: no data
  Process name: [[62080,1],0]
  Exit code:    5
"""
    failure = root_cause(MPIRUN, report)
    assert failure.cause == "worker rank 3 on algo-2 failed; then worker rank 0 on algo-1 exited with code 5"
    assert (failure.host, failure.exit_code, failure.error[-1]) == ("algo-2", 5, "ValueError: no data")
    alone = report.replace("ValueError: no data", "ConnectionError: Connection reset by peer")
    assert root_cause(MPIRUN, alone).cause == "worker rank 0 on algo-1 exited with code 5"
