"""The real launcher refuses what it cannot run: the reason, an exit code of its own, and nothing started."""

from __future__ import annotations

from pathlib import Path

from real_launcher import train

from harness.job_folder import JobFolder, compiler_image, hosts
from launch.base.errors import CONFIG


def job_that_tells_of_its_start(folder: Path) -> JobFolder:
    return JobFolder(folder / "ml").code(text="open('started', 'w')")


def test_the_real_launcher_says_one_line_and_starts_nothing(tmp_path: Path) -> None:
    job = job_that_tells_of_its_start(tmp_path).hyperparameters()
    job.config("resourceconfig", {**hosts("algo-1", "algo-2"), "current_host": "algo-9"})
    done = train(job)
    assert done.returncode == 65
    assert done.stdout == ""
    assert done.stderr == (
        f"dlc: {job.base}/input/config/resourceconfig.json: current_host; "
        "expected one of ['algo-1', 'algo-2']; found 'algo-9'\n"
    )
    assert not (job.base / "code/started").exists()


def test_a_refused_compiler_ends_the_job_with_its_reason_and_starts_nothing(tmp_path: Path) -> None:
    job = job_that_tells_of_its_start(tmp_path).hyperparameters().config("resourceconfig", hosts("algo-1"))
    compiler_image(job, "torch", torch="1.13.1").env(DLC_COMPILER="inductor")
    assert train(job).returncode == CONFIG
    assert "inductor compiles modules in place" in (job.base / "output/failure").read_text()
    assert not (job.base / "code/started").exists()


def test_how_an_earlier_run_ended_is_not_how_this_one_ends(tmp_path: Path) -> None:
    """A folder is used again, and this time its configuration is malformed."""
    job = job_that_tells_of_its_start(tmp_path).config("hyperparameters", "{")
    (job.base / "output").mkdir()
    (job.base / "output/failure").write_text("worker rank 0 on algo-1 exited with code 3\n")
    (job.base / "output/success").touch()
    assert train(job).returncode == 65
    assert "hyperparameters.json" in (job.base / "output/failure").read_text()
    assert "code 3" not in (job.base / "output/failure").read_text()
    assert not (job.base / "output/success").exists()
