"""The real launcher's log and failure file name the remedy of failures that many scripts have."""

from __future__ import annotations

from pathlib import Path

from real_launcher import runnable_job, train


def test_the_log_and_the_failure_file_name_the_remedy(tmp_path: Path) -> None:
    job = runnable_job(tmp_path).code(text="import no_such_package\n")
    done = train(job)
    assert done.returncode == 1
    remedy = "name the package that holds no_such_package in a requirements.txt beside the script"
    assert remedy in done.stderr
    assert remedy in (job.base / "output/failure").read_text()[:1024]


def test_the_failure_file_of_a_script_that_takes_flags_names_the_switch(tmp_path: Path) -> None:
    script = "import argparse; p = argparse.ArgumentParser(); p.add_argument('--no-accel', action='store_true')\n"
    job = runnable_job(tmp_path).code(text=f"{script}print(p.parse_args())").hyperparameters(**{"no-accel": True})
    done = train(job)
    assert done.returncode == 2
    reason = (job.base / "output/failure").read_text()[:1024]
    assert "DLC_ARGV_DIALECT" in reason
    assert "flags: true is the bare flag" in reason
    (job.base / "output/failure").unlink()
    job.env(DLC_ARGV_DIALECT="flags")
    done = train(job)
    assert (done.returncode, done.stdout) == (0, "Namespace(no_accel=True)\n")
