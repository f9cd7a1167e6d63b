"""From the first container to the exit code: the first failure decides, Ctrl-C ends all, and nothing is left.

Containers are processes here (stand_in_docker.py), and dlc is a process of its own, as for a user.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from dlc.core.errors import EngineError, ImageError, Interrupted, UnmeasuredError, UsageError

ROOT = find_root(Path(__file__))
BOUND_SECONDS = 120.0
HOST = "import os, signal, sys, time; host = os.environ['SM_CURRENT_HOST'];"
WAIT = "print('ready', flush=True)\nwhile True: time.sleep(0.1)"
SAVE = """
def save(*_):
    open(os.environ['SM_MODEL_DIR'] + '/' + host, 'w').close()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
"""


# The verb with less patience with an engine than users have.
HURRIED = """
import sys
from dlc.places.local import claims, lifecycle
lifecycle.PAUSES_SECONDS = (0.1, 0.1)
lifecycle.remove_containers.__defaults__ = (0.5,)
claims.LEFTOVER_SECONDS = 0.5
from dlc.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


class Started:
    """A `dlc run` of two hosts whose script is `text`, or another verb that runs a job."""

    def __init__(self, folder: Path, text: str, *words: str, output: int = subprocess.PIPE, verb: str = "run") -> None:
        self.folder = folder
        (folder / "train.py").write_text(f"{HOST}\n{text}\n")
        command = [sys.executable, "-c", HURRIED, verb, "--hosts", "2", "--output", str(folder / "results"), *words]
        with (folder / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, "dlc/some:1", str(folder / "train.py")],
                cwd=ROOT,
                stdout=output,
                stderr=errors,
                text=True,
            )

    def wait_until_ready(self) -> None:
        assert self.process.stdout
        assert sorted(self.process.stdout.readline() for _ in range(2)) == ["[algo-1] ready\n", "[algo-2] ready\n"]

    def wait_until_said(self, text: str) -> None:
        while text not in (self.folder / "errors").read_text():
            assert self.process.poll() is None, (self.folder / "errors").read_text()
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Exit code, and what dlc itself said."""
        self.process.communicate(timeout=BOUND_SECONDS)
        return self.process.returncode, (self.folder / "errors").read_text()

    def left(self) -> list[str]:
        """Containers, networks and claims."""
        places = [*(self.folder / "docker").iterdir(), *(self.folder / "cache/jobs").glob("*")]
        return sorted(path.name for path in places)


def test_a_job_that_succeeds_exits_with_0_and_leaves_its_results_only(folder: Path) -> None:
    job = Started(folder, "open(os.environ['SM_MODEL_DIR'] + '/' + host, 'w').close(); print('trained')")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    assert job.process.returncode == 0
    assert sorted(output.splitlines()) == ["[algo-1] trained", "[algo-2] trained"]
    assert sorted(path.name for path in (folder / "results/model").iterdir()) == ["algo-1", "algo-2"]
    assert job.left() == []


def test_a_job_starts_from_the_folder_where_its_script_is(folder: Path) -> None:
    (folder / "train.py").write_text("print('trained')")
    done = subprocess.run(
        [sys.executable, "-m", "dlc", "run", "dlc/some:1", "train.py"],
        cwd=folder, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr


def test_the_first_failure_decides_and_the_others_run_to_their_own_end(folder: Path) -> None:
    """algo-1 fails when dlc has seen how algo-2 ended."""
    later = "while os.path.exists(os.environ['STAND_IN_DOCKER'] + '/go'): time.sleep(0.05)"
    (folder / "docker/go").touch()
    job = Started(folder, f"if host == 'algo-2': sys.exit(7)\n{later}\nsys.exit(9)")
    job.wait_until_said("still running: algo-1")
    (folder / "docker/go").unlink()
    code, said = job.end()
    assert (code, "algo-1 9, algo-2 7" in said, "algo-2 failed first" in said) == (7, True, True), said
    assert job.left() == []


# timeout(1) signals its child, and then the group that its child is in.
@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGTERM] * 2])
def test_a_stop_lets_every_host_save(folder: Path, numbers: list[int]) -> None:
    job = Started(folder, f"{SAVE}\n{WAIT}")
    job.wait_until_ready()
    for number in numbers:
        job.process.send_signal(number)
        job.wait_until_said("s to save")
    code, said = job.end()
    assert code == Interrupted.exit_code, said
    assert "algo-1 143, algo-2 143" in said
    assert sorted(path.name for path in (folder / "results/model").iterdir()) == ["algo-1", "algo-2"]
    assert job.left() == []


def test_hosts_that_do_not_end_are_killed_after_the_grace(folder: Path) -> None:
    job = Started(folder, f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAIT}", "--grace", "1")
    job.wait_until_ready()
    job.process.send_signal(signal.SIGINT)
    code, said = job.end()
    assert (code, "algo-1 137, algo-2 137" in said) == (Interrupted.exit_code, True), said
    assert job.left() == []


def test_the_grace_begins_when_the_engine_has_delivered_the_signal(folder: Path) -> None:
    (folder / "docker/slow-TERM").write_text("5")
    slowly = SAVE.replace("def save(*_):", "def save(*_):\n    time.sleep(1)")
    job = Started(folder, f"{slowly}\n{WAIT}", "--grace", "4")
    job.wait_until_ready()
    job.process.send_signal(signal.SIGINT)
    code, said = job.end()
    assert (code, "algo-1 143, algo-2 143" in said) == (Interrupted.exit_code, True), said


def test_a_second_ctrl_c_kills_at_once(folder: Path) -> None:
    job = Started(folder, f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAIT}", "--grace", "900")
    job.wait_until_ready()
    job.process.send_signal(signal.SIGINT)
    job.wait_until_said("900 s to save")
    job.process.send_signal(signal.SIGINT)
    code, said = job.end()
    assert (code, "killing algo-1, algo-2" in said) == (Interrupted.exit_code, True), said
    assert job.left() == []


def test_a_reader_that_leaves_stops_the_job(folder: Path) -> None:
    with subprocess.Popen(["head", "-n", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin
        assert reader.stdout
        talk = "while True: print('step', flush=True); time.sleep(0.05)"
        job = Started(folder, f"{SAVE}\n{talk}", output=reader.stdin.fileno())
        reader.stdin.close()
        assert reader.stdout.read().endswith("] step\n")
    _, said = job.end()
    assert "stopping algo-1, algo-2" in said
    assert sorted(path.name for path in (folder / "results/model").iterdir()) == ["algo-1", "algo-2"]
    assert job.left() == []


def test_what_the_engine_refuses_is_its_own_words_once_and_leaves_nothing(folder: Path) -> None:
    job = Started(folder, "", "--user", "nobody-there")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    said = (folder / "errors").read_text()
    assert (job.process.returncode, output) == (EngineError.exit_code, "")
    assert "was not started: Error response from daemon: unable to find user nobody-there.\n" in said
    assert said.count("unable to find user") == 1
    assert "remedy: dlc run --explain" in said
    assert job.left() == []
    assert not (folder / "results").exists()


@pytest.mark.parametrize("what", ["algo-2", "network"])
def test_what_a_busy_engine_could_not_make_is_tried_again(folder: Path, what: str) -> None:
    (folder / f"docker/busy-{what}").write_text("2")
    job = Started(folder, "print('trained')")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    assert job.process.returncode == 0, (folder / "errors").read_text()
    assert sorted(output.splitlines()) == ["[algo-1] trained", "[algo-2] trained"]


@pytest.mark.parametrize("what", ["algo-2", "network"])
def test_what_a_busy_engine_does_not_make_three_times_is_its_own_words(folder: Path, what: str) -> None:
    (folder / f"docker/busy-{what}").write_text("9")
    code, said = Started(folder, "print('trained')").end()
    assert (code, (folder / f"docker/busy-{what}").read_text()) == (EngineError.exit_code, "6"), said
    assert "context deadline exceeded" in said


def test_a_job_that_cannot_be_claimed_leaves_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("DLC_CACHE_DIR", str(folder / "file"))
    code, said = Started(folder, "print('started')").end()
    assert (code, "DLC_CACHE_DIR" in said, "starts on" in said) == (UsageError.exit_code, True, False), said
    assert not (folder / "results").exists()


@pytest.mark.parametrize("verb", ["run", "profile", "tune-batch"])
@pytest.mark.parametrize(
    ("words", "expected", "remedy"),
    [
        (["--cpus", "4096"], "--cpus 4096: expected 2 at most", "--cpus 2, or less"),
        (["--memory", "5g"], "--memory 5g: expected 4096m at most", "--memory 4096m, or less"),
        (["--gpus", "all"], "--gpus all: expected an engine that gives GPUs to containers", "leave out --gpus"),
    ],
)
def test_what_the_engines_host_does_not_have_is_refused_before_anything_is_made(
    verb: str, words: list[str], expected: str, remedy: str, folder: Path
) -> None:
    tried = ["--hp-name", "b", "--hp", "b=1"] if verb == "tune-batch" else []
    limit = ["--memory", "1g"] if tried and "--memory" not in words else []
    job = Started(folder, "print('started')", *words, *tried, *limit, verb=verb)
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    said = (folder / "errors").read_text()
    assert (job.process.returncode, output) == (UsageError.exit_code, ""), said
    assert (said.count(expected), f"remedy: {remedy}" in said) == (1, True), said
    assert job.left() == []
    assert not (folder / "results").exists()
    assert not (folder / "cache").exists()


def test_a_line_of_a_script_that_begins_as_the_clients_errors_is_a_line_like_others(folder: Path) -> None:
    job = Started(folder, "print('docker: not found'); print('trained')")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    assert job.process.returncode == 0
    own = [line for line in output.splitlines() if line.startswith("[algo-1]")]
    assert own == ["[algo-1] docker: not found", "[algo-1] trained"]


def test_an_image_that_is_not_there_is_an_error_before_anything_is_made(folder: Path) -> None:
    job = Started(folder, "")
    job.process.communicate(timeout=BOUND_SECONDS)
    done = subprocess.run(
        [sys.executable, "-m", "dlc", "run", "--output", str(folder / "none"), "dlc/none:1", str(folder / "train.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, "dlc/none:1: the engine has no such image" in done.stderr) == (ImageError.exit_code, True)
    assert not (folder / "none").exists()


def test_containers_that_somebody_removes_at_the_same_time_are_no_error(folder: Path) -> None:
    (folder / "docker/refuse").touch()
    job = Started(folder, "print('trained')")
    code, said = job.end()
    assert (code, job.left()) == (0, ["refuse"]), said


def test_what_a_killed_dlc_left_is_removed_by_the_next(folder: Path) -> None:
    killed = Started(folder, WAIT)
    killed.wait_until_ready()
    killed.process.kill()
    killed.end()
    assert len(killed.left()) == 4, "two containers, a network, a claim"
    (folder / "results").rename(folder / "earlier-results")
    following = Started(folder, "print('trained')")
    code, said = following.end()
    assert (code, "removed what a killed dlc left: dlc-" in said) == (0, True), said
    assert following.left() == []


def test_what_the_engine_does_not_remove_is_a_warning_after_the_results(folder: Path) -> None:
    (folder / "docker/stuck").touch()
    job = Started(folder, "open(os.environ['SM_MODEL_DIR'] + '/' + host, 'w').close(); sys.exit(7)")
    code, said = job.end()
    assert code == 7, said
    assert sorted(path.name for path in (folder / "results/model").iterdir()) == ["algo-1", "algo-2"]
    assert "did not receive an exit event; the next job removes it" in said.partition(" has ended: ")[2]
    assert len(job.left()) == 5, "two containers, a network, a claim, the file of this test"
    (folder / "results").rename(folder / "earlier-results")
    code, said = Started(folder, "print('trained')").end()
    assert (code, said.count("warning: left behind")) == (0, 2), said
    (folder / "docker/stuck").unlink()
    (folder / "results").rename(folder / "second-results")
    following = Started(folder, "print('trained')")
    code, said = following.end()
    assert (code, following.left()) == (0, []), said


BROKEN_REPORT = """
open(os.environ["SM_MODEL_DIR"] + "/" + host, "w").close()
os.makedirs("../output/data/compiler")
with open("../output/data/compiler/rank-0.json", "w") as file:
    file.write('{"steps": {}, "compile_seconds": 1}' if host == "algo-1" else "[" * 200_000)
"""


@pytest.mark.parametrize(
    ("then", "expected"),
    [("", 0), ("sys.exit(7)", 7), (WAIT, Interrupted.exit_code)],
    ids=["ends", "fails", "is stopped"],
)
def test_a_report_that_cannot_be_read_costs_neither_the_results_nor_the_exit_code(
    then: str, expected: int, folder: Path
) -> None:
    job = Started(folder, f"{BROKEN_REPORT}\n{then}")
    if then == WAIT:
        job.wait_until_ready()
        job.process.send_signal(signal.SIGINT)
    code, said = job.end()
    assert code == expected, said
    assert sorted(path.name for path in (folder / "results/model").iterdir()) == ["algo-1", "algo-2"]
    assert "expected the compiler's report of a rank of algo-2, found RecursionError" in said
    assert job.left() == []


REPORT = {
    "version": 1, "state": "ended", "framework": "torch", "host": "algo-1", "rank": 0, "steps": 7,
    "step_seconds": 0.02, "waiting_seconds": 1.4, "computing_seconds": 0.14, "starting_seconds": 0.0,
    "batch_bytes": 1000.0, "preprocessing": {"batches": 7, "cpu_seconds": 1.4, "seconds": 1.4, "workers": 1},
    "cpu": {"usable": 1.0, "busy": 0.99, "seconds": 1.5, "job_cpu_seconds": 1.5}, "gpu": {},
}  # fmt: skip
MEASURED = f"""
asked = {{name: value for name, value in os.environ.items() if name.startswith("DLC_PROFILE")}}
print("trained", flush=True)
if host == "algo-1":
    os.makedirs("../output/data/profile")
    with open("../output/data/profile/rank-0.json", "w") as file:
        file.write({json.dumps(REPORT)!r})
    with open("../output/data/asked.json", "w") as file:
        json.dump(asked, file)
"""


def test_a_job_is_profiled_by_a_short_run_whose_lines_are_no_part_of_the_answer(folder: Path) -> None:
    job = Started(folder, f"import json\n{MEASURED}", "--steps", "7", "--json", verb="profile")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    assert job.process.returncode == 0, (folder / "errors").read_text()
    assert json.loads(output)["profile"]["kind"] == "processors"
    assert "[algo-1] trained" in (folder / "errors").read_text()
    asked = json.loads((folder / "results/output/asked.json").read_text())
    assert asked == {"DLC_PROFILE": "1", "DLC_PROFILE_ENDS_JOB": "1", "DLC_PROFILE_STEPS": "7"}
    assert job.left() == []


def test_a_job_without_a_loop_over_data_is_an_error_that_names_the_script_and_a_loop_to_measure(folder: Path) -> None:
    job = Started(folder, "print('trained')", "--json", verb="profile")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    said = (folder / "errors").read_text()
    assert (job.process.returncode, output) == (UnmeasuredError.exit_code, ""), said
    assert "train.py: expected a loop over a DataLoader or a tf.data.Dataset" in said
    assert "dlc_runtime.profile.watch(batches)" in said
    assert "No such file" not in said
    assert job.left() == []


def test_a_job_that_fails_while_it_is_profiled_has_its_exit_code_and_no_answer(folder: Path) -> None:
    job = Started(folder, "sys.exit(3 if host == 'algo-1' else 0)", verb="profile")
    output, _ = job.process.communicate(timeout=BOUND_SECONDS)
    assert (job.process.returncode, output) == (3, "")
