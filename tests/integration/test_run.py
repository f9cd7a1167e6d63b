"""dlc run, with real containers: jobs of two hosts that succeed, fail, are stopped, run at once, are left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.core.errors import EngineError, ImageError, Interrupted, UsageError
from harness.dlc_run import DlcRun, left
from harness.engine import docker
from harness.images import Image
from harness.job import SHORT_HEARTBEAT

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
REPORT = str(SCRIPTS / "report_itself.py")
SAVE = str(SCRIPTS / "save_on_sigterm.py")
STUBBORN = str(SCRIPTS / "ignore_stops.py")
TWO = ("--hosts", "2")
READY = tuple(f"[algo-{number}] ready to be stopped" for number in (1, 2))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Jobs of other users and tests are not looked after in it."""
    return tmp_path / "cache"


def nothing_is_left(run: DlcRun, cache: Path) -> bool:
    """Whether the job's containers and its network are gone, and nobody claims it."""
    assert run.job
    found = (*left("ps", "--all", job=run.job), *left("network", "ls", job=run.job), *(cache / "jobs").glob("*"))
    return not found


@pytest.mark.core
def test_a_job_on_two_hosts_has_its_data_and_its_results_come_together(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "digits.csv").touch()
    words = (*TWO, "--hp", "word=hello", "--channel", f"training={data}", image.ref, REPORT)
    with DlcRun(tmp_path / "run", *words, cache=cache) as run:
        assert run.wait() == 0
        for host in ("algo-1", "algo-2"):
            expected = f'[{host}] hello {host} of ["algo-1","algo-2"] with {{"training": ["digits.csv"]}}'
            assert expected in run.output.splitlines()
        for part in ("model", "output"):
            found = {path.name: path.read_text() for path in (run.results / part).iterdir() if path.is_file()}
            assert found == {"algo-1": "hello", "algo-2": "hello", "of-every-host": "algo-1"}
        assert "hosts/algo-2/model/of-every-host stays there" in run.output
        assert nothing_is_left(run, cache)


@pytest.mark.core
def test_the_host_that_fails_first_decides_and_is_named_with_its_reason(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    with DlcRun(tmp_path / "run", *TWO, "--hp", "fails=algo-2", image.ref, REPORT, cache=cache) as run:
        assert run.wait() == 3
        reason = run.output.partition("has ended: algo-1 3, algo-2 3\n")[2].splitlines()[0]
        assert "worker rank 0 on algo-2 exited with code 3" in reason
        assert nothing_is_left(run, cache)


def test_groups_run_their_own_programs_and_the_job_ends_with_the_training_group(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    words = (
        *("--group", "data=2", "--group", "dnn=1"),
        *("--program", f"data={SCRIPTS / 'serve_for_ever.py'}", "--hp", "word=trained"),
        *("--hp", "sagemaker_torch_distributed_enabled=true"),
        *("--hp", 'sagemaker_distribution_instance_groups=["dnn"]', "--cpus", "dnn=0.5"),
        *(image.ref, REPORT),
    )
    with DlcRun(tmp_path / "run", *words, cache=cache) as run:
        assert run.wait() == 0
        assert "trained algo-3 of" in run.output
        for host in ("algo-1", "algo-2"):
            assert f"trained {host}" not in run.output
        assert sorted(path.name for path in (run.results / "model").iterdir()) == ["algo-3", "of-every-host"]


def test_a_hosts_limits_and_labels_are_those_of_its_group(image: Image, tmp_path: Path, cache: Path) -> None:
    words = ("--group", "data=1", "--group", "dnn=1", "--cpus", "dnn=0.5", "--memory", "data=1g", image.ref, SAVE)
    with DlcRun(tmp_path / "run", *words, cache=cache) as run:
        run.wait_for(*READY)
        names = [f"dlc-{run.job}-{host}" for host in ("algo-1", "algo-2")]
        limits = [json.loads(docker("inspect", "--format", "{{json .HostConfig}}", name).stdout) for name in names]
        assert [(host["NanoCpus"], host["Memory"] == 2**30) for host in limits] == [(0, True), (5 * 10**8, False)]
        assert limits[1]["Memory"] > 2**30  # a share of this machine, as nobody said a limit
        assert left("network", "ls", job=run.job) == [f"dlc-{run.job}"]
        run.interrupt()
        assert run.wait() == Interrupted.exit_code


@pytest.mark.core
def test_ctrl_c_lets_every_host_save_and_collects_what_it_saved(image: Image, tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "run", *TWO, "--grace", "60", image.ref, SAVE, cache=cache) as run:
        run.wait_for(*READY)
        run.interrupt()
        assert run.wait() == Interrupted.exit_code
        assert (run.results / "model/saved-on-signal").read_text() == "15"
        assert nothing_is_left(run, cache)


def test_a_second_ctrl_c_kills_hosts_that_do_not_end(image: Image, tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "run", *TWO, "--grace", "900", image.ref, STUBBORN, cache=cache) as run:
        run.wait_for(*READY)
        run.interrupt()
        run.wait_for("900 s to save")
        run.interrupt()
        assert run.wait() == Interrupted.exit_code
        assert "killing algo-1, algo-2" in run.output
        assert "algo-1 137, algo-2 137" in run.output
        assert nothing_is_left(run, cache)


def test_hosts_that_do_not_end_are_killed_after_the_grace(image: Image, tmp_path: Path, cache: Path) -> None:
    words = ("--grace", "3", "--env", "DLC_STOP_GRACE=900")  # the launcher would wait longer
    with DlcRun(tmp_path / "run", *TWO, *words, image.ref, STUBBORN, cache=cache) as run:
        run.wait_for(*READY)
        run.interrupt()
        assert run.wait() == Interrupted.exit_code
        assert "algo-1 137, algo-2 137" in run.output


def test_two_jobs_at_once_never_mix(image: Image, tmp_path: Path, cache: Path) -> None:
    words = [(*TWO, "--hp", f"word={word}", image.ref, REPORT) for word in ("first", "second")]
    with (
        DlcRun(tmp_path / "1", *words[0], cache=cache) as first,
        DlcRun(tmp_path / "2", *words[1], cache=cache) as second,
    ):
        for run, own, other in ((first, "first", "second"), (second, "second", "first")):
            assert run.wait() == 0
            assert run.output.count(f"{own} algo-") == 2
            assert other not in run.output
            assert (run.results / "model/algo-2").read_text() == own
        assert nothing_is_left(first, cache)


def test_what_a_killed_dlc_left_is_removed_by_the_next_and_a_running_job_is_not(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    with (
        DlcRun(tmp_path / "killed", *TWO, image.ref, SAVE, cache=cache) as killed,
        DlcRun(tmp_path / "running", *TWO, image.ref, SAVE, cache=cache) as running,
    ):
        killed.wait_for(*READY)
        running.wait_for(*READY)
        abandoned, alive = killed.job, running.job
        killed.kill()
        assert len(left("ps", job=abandoned)) == 2, "containers of a killed dlc run on"
        with DlcRun(tmp_path / "next", image.ref, REPORT, cache=cache) as following:
            assert following.wait() == 0
            assert f"removed what a killed dlc left: dlc-{abandoned}-algo-" in following.output
            assert (left("ps", "-a", job=abandoned), left("network", "ls", job=abandoned)) == ([], [])
        assert len(left("ps", job=alive)) == 2
        running.interrupt()
        assert running.wait() == Interrupted.exit_code


def test_a_job_that_was_left_can_be_removed_by_its_name(image: Image, tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "killed", *TWO, image.ref, SAVE, cache=cache) as killed:
        killed.wait_for(*READY)
        abandoned = killed.job
        with DlcRun(tmp_path / "too-early", "--remove", abandoned, cache=cache) as removing:
            assert removing.wait() == 1
            assert "a dlc still runs this job" in removing.output
        killed.kill()
        with DlcRun(tmp_path / "remove", "--remove", abandoned, cache=cache) as removing:
            assert removing.wait() == 0
        assert (left("ps", "-a", job=abandoned), left("network", "ls", job=abandoned)) == ([], [])
        assert not list((cache / "jobs").iterdir())


def test_what_the_engine_refuses_is_one_error_with_its_reason_and_leaves_nothing(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    with DlcRun(tmp_path / "run", *TWO, "--user", "nobody-there", image.ref, REPORT, cache=cache) as run:
        assert run.wait() == EngineError.exit_code
        assert "was not started: " in run.output
        assert "nobody-there" in run.output.partition("was not started: ")[2]
        assert run.output.count("unable to find user") == 1
        assert nothing_is_left(run, cache)


@pytest.mark.parametrize("limit", [("--cpus", "4096"), ("--memory", "4096t")], ids=lambda limit: limit[0])
def test_what_the_engines_host_does_not_have_is_refused_before_anything_is_made(
    limit: tuple[str, str], image: Image, tmp_path: Path, cache: Path
) -> None:
    with DlcRun(tmp_path / "run", *TWO, *limit, image.ref, REPORT, cache=cache) as run:
        assert run.wait() == UsageError.exit_code
        assert f"{' '.join(limit)}: expected " in run.output
        assert not run.job
        assert not run.results.exists()
        assert not list(cache.rglob("jobs/*"))


def test_a_reader_of_the_output_that_leaves_stops_the_job(image: Image, tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "run", *TWO, image.ref, SAVE, cache=cache, reader="head -n 2") as run:
        run.wait()
        assert "stopping algo-1, algo-2" in run.output
        assert nothing_is_left(run, cache)


def test_a_docker_client_that_is_killed_does_not_end_the_job(image: Image, tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "run", *TWO, image.ref, SAVE, cache=cache) as run:
        run.wait_for(*READY)
        job = run.job
        assert run.kill_clients("algo-1") == 1
        docker("kill", "--signal", "TERM", f"dlc-{job}-algo-2")  # the launcher ends both hosts
        assert run.wait() == 0
        assert "algo-1 0, algo-2 0" in run.output
        assert nothing_is_left(run, cache)


def test_a_container_that_somebody_removes_ends_the_job_with_a_line_that_names_its_host(
    image: Image, tmp_path: Path, cache: Path
) -> None:
    # Its network is gone with it, so the other host hears nothing more.
    words = [word for name, value in SHORT_HEARTBEAT.items() for word in ("--env", f"{name}={value}")]
    with DlcRun(tmp_path / "run", *TWO, *words, image.ref, SAVE, cache=cache) as run:
        run.wait_for(*READY)
        docker("rm", "--force", f"dlc-{run.job}-algo-2")
        assert run.wait() == EngineError.exit_code
        assert "somebody removed the container of algo-2" in run.output
        assert nothing_is_left(run, cache)


def test_checkpoints_outlive_the_job_and_the_next_job_finds_them(image: Image, tmp_path: Path, cache: Path) -> None:
    kept = ("--checkpoints", str(tmp_path / "kept"))
    for number in ("1", "2"):
        with DlcRun(tmp_path / number, *kept, image.ref, str(SCRIPTS / "count_starts.py"), cache=cache) as run:
            assert run.wait() == 0
            assert f"start {number}" in run.output


@pytest.mark.usefixtures("engine")
def test_an_image_that_is_not_there_is_not_looked_for_in_a_registry(tmp_path: Path, cache: Path) -> None:
    with DlcRun(tmp_path / "run", "dlc/none:1", REPORT, cache=cache) as run:
        assert run.wait() == ImageError.exit_code
        assert "dlc/none:1: the engine has no such image" in run.output
        assert not run.results.exists()
