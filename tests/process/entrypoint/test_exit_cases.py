"""The worked cases about ends of a job, for real: what the script did, and what the platform is told of it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from real_launcher import BOUND, launched, runnable_job

from harness.job_folder import JobFolder

CASES = {case["id"]: case for case in json.loads(Path("tests/contract/cases.json").read_text())}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return runnable_job(tmp_path)


def start(job: JobFolder, script: str) -> subprocess.Popen[str]:
    return launched(job.code(text=script))


def run(job: JobFolder, name: str) -> tuple[int, list[str], str]:
    """(exit code, files in the output folder, failure file) of a case's script."""
    process = start(job, CASES[name]["input"]["script"])
    process.communicate(timeout=BOUND)
    output = job.base / "output"
    reason = (output / "failure").read_text() if (output / "failure").exists() else ""
    return process.returncode, sorted(path.name for path in output.iterdir()), reason


def expected(name: str) -> Any:
    return CASES[name]["expect"]


def test_a_success_leaves_the_same_files(job: JobFolder) -> None:
    assert run(job, "exit-01-success") == (0, expected("exit-01-success")["files"], "")


@pytest.mark.parametrize("name", ["exit-02-code3", "exit-03-code3-nocapture"])
def test_the_scripts_own_exit_code_is_the_containers(job: JobFolder, name: str) -> None:
    code, files, reason = run(job, name)
    assert (code, files) == (3, expected(name)["files"])
    assert reason == "worker rank 0 on algo-1 exited with code 3\n"


def test_an_exceptions_lines_are_the_reason_in_their_order(job: JobFolder) -> None:
    code, files, reason = run(job, "exit-04-exception")
    assert (code, files) == (1, expected("exit-04-exception")["files"])
    first, *lines = reason.splitlines()
    assert first == "worker rank 0 on algo-1 exited with code 1"
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == ["ValueError: boom: a", "b"]


def test_a_reason_that_the_script_wrote_itself_is_kept(job: JobFolder) -> None:
    name = "exit-06-user-failure-file"
    assert run(job, name) == (2, expected(name)["files"], expected(name)["failure_file"])


def test_a_script_that_is_not_there_is_an_error_before_anything_starts(job: JobFolder) -> None:
    job.env(SAGEMAKER_PROGRAM="nope.py")
    code, files, reason = run(job, "exit-08-missing-script")
    assert (code, files) == (66, expected("exit-08-missing-script")["files"])
    assert "nope.py: no such entry point" in reason


def test_a_program_that_lost_its_permission_to_be_executed_in_s3_is_executed(job: JobFolder) -> None:
    tool = job.code(["tool"]).env(SAGEMAKER_PROGRAM="tool").base / "code/tool"
    tool.write_bytes(Path("/bin/true").read_bytes())
    tool.chmod(0o640)
    process = launched(job)
    process.communicate(timeout=BOUND)
    assert (process.returncode, tool.stat().st_mode & 0o777) == (0, 0o750)


def test_a_process_killed_by_a_signal_is_128_and_its_number(job: JobFolder) -> None:
    process = start(job, "import os; os.kill(os.getpid(), 9)")
    process.communicate(timeout=BOUND)
    assert process.returncode == 137
    assert "was ended by SIGKILL" in (job.base / "output/failure").read_text()


def test_glooss_words_on_stderr_do_not_make_a_failure_a_success(job: JobFolder) -> None:
    words = CASES["pt-gloo-swallowed"]["input"]["user_process_stderr"]
    process = start(job, f"import sys; sys.exit({words!r})")
    process.communicate(timeout=BOUND)
    assert process.returncode == 1
    assert words in (job.base / "output/failure").read_text()


def test_a_stop_request_reaches_the_script_which_may_end_well(job: JobFolder) -> None:
    script = CASES["sig-01-sigterm-not-forwarded"]["input"]["script"]
    seen = job.base / "sawsig"
    process = start(job, script.replace("/tmp/sawsig", str(seen)).replace("for i", "print('ready', flush=True)\nfor i"))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=BOUND)
    assert seen.exists()
    assert process.returncode == 0
