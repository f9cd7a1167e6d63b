"""What a script that ends well leaves running is named, and a job that saved nothing because of it has failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from real_launcher import runnable_job, train
from supervised import run

from harness.job_folder import JobFolder

TRAINS = "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)\npathlib.Path('../model/x').touch()\n"
BEGUN = "while [ ! -e begun ]; do sleep 0.01; done"
LEAVES = {
    "nohup": f"nohup python train.py > log 2>&1 &\n{BEGUN}",
    "a module": f"python -m train &\n{BEGUN}",
    "a folder": f"mkdir -p part && cd part && python ../train.py &\n{BEGUN.replace('begun', 'part/begun')}",
    "a shell with a filter": f"(python train.py | tee log) &\n{BEGUN}",
    "a session of its own": f"setsid --fork python train.py\n{BEGUN}",
}
POPEN = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, 'train.py'])
while not os.path.exists('begun'): time.sleep(0.01)
"""


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return runnable_job(tmp_path).code(text=TRAINS)


def has_succeeded(job: JobFolder) -> bool:
    return (job.base / "output/success").exists()


@pytest.mark.parametrize("shape", LEAVES)
def test_a_shell_script_that_leaves_its_training_in_the_background_has_failed(job: JobFolder, shape: str) -> None:
    done = train(job.code(("run.sh",), text=LEAVES[shape]).hyperparameters(sagemaker_program="run.sh"))
    assert done.returncode == 143, done.stderr
    assert not has_succeeded(job)
    reason = (job.base / "output/failure").read_text()
    assert "train" in reason
    assert "ended with code 0 while" in reason
    assert "wait" in reason


def test_a_python_script_that_does_so_has_failed(job: JobFolder) -> None:
    done = train(job.code(("run.py",), text=POPEN).hyperparameters(sagemaker_program="run.py"))
    assert (done.returncode, has_succeeded(job)) == (143, False), done.stderr


def test_a_job_that_has_saved_something_succeeds_and_names_what_it_left(job: JobFolder) -> None:
    script = LEAVES["nohup"] + "\necho > ../model/model.bin"
    done = train(job.code(("run.sh",), text=script).hyperparameters(sagemaker_program="run.sh"))
    assert (done.returncode, has_succeeded(job)) == (0, True), done.stderr
    assert "left this running" in done.stderr
    assert "train.py" in done.stderr


def test_a_program_that_is_not_of_the_users_code_is_named_and_no_failure(job: JobFolder) -> None:
    script = f"{sys.executable} -m http.server --bind 127.0.0.1 0 >/dev/null 2>&1 &\nsleep 0.3"
    done = train(job.code(("run.sh",), text=script).hyperparameters(sagemaker_program="run.sh"))
    assert (done.returncode, has_succeeded(job)) == (0, True), done.stderr
    assert "http.server" in done.stderr


def test_forks_of_the_script_and_filters_are_not_named(tmp_path: Path) -> None:
    done = run(tmp_path, "import os, subprocess, time\nsubprocess.Popen(['sleep', '60'])\nos.fork() or time.sleep(600)")
    assert (done.exit_code, done.stderr) == (0, b"")
