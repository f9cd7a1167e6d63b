"""A data host fails: the job goes on while another one of its group serves, where its program or the user says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchers import MULTI_WORKER, Hosts
from real_launcher import BOUND, LAUNCHER
from supervised import wait_for, wait_until

TRAINING, FIRST, SECOND = 0, 1, 2  # hosts of the job: 127.0.0.1 trains, .2 and .3 make data
DISTRIBUTED = {"sagemaker_distribution_instance_groups": ["dnn"]}
MAY_FAIL = "DLC_DATA_HOSTS_MAY_FAIL"

# A data host says that others can take over, and waits until it is heard. Hosts end as files in the job's folder say.
SCRIPT = """
import os, pathlib, sys, time
own = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
host, parent = own.name, os.getppid()
word = os.environ.get("DLC_VARIABLE")
if WORD and word:
    open(word, "w").close()
    while os.path.exists(word): time.sleep(0.01)
with open(own.parent / f"{host}-runs", "a") as runs:
    runs.write("again ")
end = own.parent / f"{host}-ends"
while not end.exists():
    if os.getppid() != parent: sys.exit()
    time.sleep(0.01)
code = int(end.read_text())
end.unlink()
(own / "output/failure").write_text("of the program") if code == 13 else None
print("the disk is broken", file=sys.stderr) if code else None
sys.exit(code)
"""


class DataJob(Hosts):
    """One training host and two data hosts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 3)
        self.folder = folder

    def begin(self, word: bool = True, **environ: str) -> None:
        """Start all, and wait until their programs run."""
        groups = {"dnn": [TRAINING], "data": [FIRST, SECOND]}
        script = SCRIPT.replace("WORD", str(word)).replace("DLC_VARIABLE", "DLC_TAKEOVER_FILE")
        self.configure(script, groups, **MULTI_WORKER, **DISTRIBUTED)
        for job in self.jobs:
            job.env(**{"DLC_HEARTBEAT_TIMEOUT": "60", **environ})
        self.start()
        for number in range(3):
            self.wait_for_runs(number)

    def wait_for_runs(self, number: int, runs: int = 1) -> None:
        """Until a host's program runs for the first, or another, time."""
        wait_until(lambda: len(wait_for(self.folder / f"{self.names[number]}-runs").split()) == runs)

    def end(self, number: int, code: int) -> None:
        """Let a host's program end."""
        part = self.folder / "part"
        part.write_text(str(code))
        part.rename(self.folder / f"{self.names[number]}-ends")

    def hear(self, text: str, number: int = TRAINING) -> str:
        """What a host's launcher prints, up to the line that holds this text."""
        stderr = self.processes[number].stderr
        assert stderr is not None
        lines = []
        while not lines or text not in lines[-1]:
            lines.append(stderr.readline())
            assert lines[-1], f"{text!r} never came: {''.join(lines)}"
        return "".join(lines)

    def results(self) -> list[tuple[int, str]]:
        """(exit code, failure file) of every host."""
        return [(code, failure) for code, _, failure in self.ends()]

    def has_succeeded(self) -> bool:
        """Whether every host left the mark of a success."""
        return all((job.base / "output/success").exists() for job in self.jobs)


WELL = [(0, "")] * 3


@pytest.fixture
def job(tmp_path: Path) -> Iterator[DataJob]:
    made = DataJob(tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("word", "switch"), [(True, ""), (False, "1")], ids=["its program says so", "the user does"])
def test_a_job_goes_on_without_a_data_host_and_ends_well_on_all(job: DataJob, word: bool, switch: str) -> None:
    job.begin(word, **{MAY_FAIL: switch})
    job.end(FIRST, 13)
    said = job.hear("is up to 127.0.0.3")
    assert "dlc: warning: the job goes on without 127.0.0.2, a data host: worker rank 0 on 127.0.0.2 exited" in said
    assert "exited with code 13\n  | the disk is broken\n" in said
    job.hear("the job goes on: other data hosts take over from this one", FIRST)
    job.end(TRAINING, 0)
    assert job.results() == WELL
    assert job.has_succeeded()


@pytest.mark.parametrize(("word", "switch"), [(False, ""), (True, "0")], ids=["nobody says so", "the user forbids it"])
def test_a_data_host_that_fails_ends_the_job_where_nobody_says_that_others_take_over(
    job: DataJob, word: bool, switch: str
) -> None:
    job.begin(word, **{MAY_FAIL: switch})
    job.end(FIRST, 9)
    assert [code for code, _ in job.results()] == [9, 9, 9]


def test_the_failure_of_the_last_data_host_ends_the_job_and_names_the_first(job: DataJob) -> None:
    job.begin()
    job.end(SECOND, 7)
    job.hear("is up to 127.0.0.2")
    job.end(FIRST, 9)
    (code, failure), (last_code, last), (first_code, first) = job.results()
    assert (code, last_code, first_code) == (7, 9, 7)
    assert failure.startswith("the job failed on 127.0.0.3: worker rank 0 on 127.0.0.3 exited with code 7; no data")
    assert "the last one: worker rank 0 on 127.0.0.2 exited with code 9" in failure
    assert "127.0.0.2 exited with code 9" in last
    assert first.startswith("worker rank 0 on 127.0.0.3 exited with code 7")


def test_a_data_host_whose_launcher_is_killed_does_not_end_the_job(job: DataJob) -> None:
    job.constants = {"launch.coordination.failure_detector.GONE_SECONDS": 3.0}
    job.begin()
    job.processes[FIRST].kill()
    assert "127.0.0.2 vanished" in job.hear("is up to 127.0.0.3")
    job.end(TRAINING, 0)
    results = job.results()
    assert (results[TRAINING], results[SECOND]) == ((0, ""), (0, ""))


def test_a_job_that_ends_well_does_not_wait_for_a_data_host_that_is_dead(job: DataJob) -> None:
    job.constants = {"launch.coordination.coordinator.LINGER_SECONDS": 1.0}
    job.begin()
    job.processes[FIRST].kill()
    job.end(TRAINING, 0)
    _, said = job.processes[TRAINING].communicate(timeout=BOUND)
    _, failed = job.processes[SECOND].communicate(timeout=BOUND)
    assert [job.processes[host].returncode for host in (TRAINING, SECOND)] == [0, 0], said + failed
    assert "the group of hosts has ended well" in said
    assert "127.0.0.2 vanished" not in said  # that it is gone is known only later


@pytest.mark.long
def test_a_data_host_that_is_cut_off_while_the_training_ends_well_does_not_make_the_job_a_failure(job: DataJob) -> None:
    job.constants = {
        "launch.coordination.failure_detector.GONE_SECONDS": 2.0,
        "launch.coordination.coordinator.LINGER_SECONDS": 1.0,
    }
    job.begin()
    job.processes[SECOND].send_signal(signal.SIGSTOP)
    job.end(TRAINING, 0)
    job.processes[TRAINING].wait(BOUND)
    job.processes[SECOND].send_signal(signal.SIGCONT)
    assert job.results() == WELL
    assert "127.0.0.1, which leads the group, vanished" in job.stderr[SECOND]
    assert "this host only serves data, so how the job ends is said by those that train" in job.stderr[SECOND]
    assert "has ended well" not in job.stderr[SECOND]


def test_when_all_data_hosts_are_cut_off_the_job_fails_and_they_are_named_not_the_training_host(job: DataJob) -> None:
    job.constants = {"launch.coordination.failure_detector.GONE_SECONDS": 2.0}
    job.begin(DLC_HEARTBEAT_TIMEOUT="3")
    for cut_off in (FIRST, SECOND):
        job.processes[cut_off].send_signal(signal.SIGSTOP)
    job.processes[TRAINING].wait(BOUND)
    for cut_off in (FIRST, SECOND):
        job.processes[cut_off].send_signal(signal.SIGCONT)
    (code, failure), first, second = job.results()
    assert code == 69
    assert "vanished" in failure.partition("; no data host of its group is left")[0]
    assert not any(f"127.0.0.1{after}" in failure for after in (",", ":", " "))
    assert (first, second) == ((0, ""), (0, ""))


def test_a_training_script_is_told_at_once_that_a_data_hosts_program_has_ended(job: DataJob) -> None:
    """Which never served: else a loader would wait for it with all its patience."""
    script = """
import json, os, pathlib, time
if os.environ["SM_CURRENT_HOST"] == "127.0.0.1":
    told = pathlib.Path(os.environ["DLC_ENDED_HOSTS_FILE"])
    while not told.exists() or len(json.loads(told.read_text())) < 2: time.sleep(0.01)
    print(told.read_text())
"""
    job.configure(script, {"dnn": [TRAINING], "data": [FIRST, SECOND]}, **MULTI_WORKER, **DISTRIBUTED)
    for each in job.jobs:
        each.env(DLC_HEARTBEAT_TIMEOUT="600")
    job.start()
    ends = job.ends()
    assert [code for code, _, _ in ends] == [0, 0, 0]
    assert '["127.0.0.2", "127.0.0.3"]' in ends[TRAINING][1]


def test_a_data_host_whose_container_is_started_again_takes_part_again(job: DataJob) -> None:
    job.begin()
    job.processes[FIRST].kill()
    job.processes[FIRST].communicate()
    argv = [sys.executable, "-I", "-S", LAUNCHER, "train"]
    environ = job.jobs[FIRST].environ
    job.processes[FIRST] = subprocess.Popen(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=job.jobs[FIRST].base
    )
    assert "127.0.0.2 was started again" in job.hear("127.0.0.2, a data host, has come back")
    job.wait_for_runs(FIRST, 2)
    job.end(SECOND, 7)  # the other one fails now, and this one takes over
    job.hear("is up to 127.0.0.2")
    job.end(TRAINING, 0)
    assert job.results() == WELL


def test_the_training_groups_failure_decides_and_the_data_hosts_is_said_beside_it(job: DataJob) -> None:
    job.begin()
    job.end(FIRST, 7)
    job.hear("is up to 127.0.0.3")
    job.end(TRAINING, 5)
    results = job.results()
    assert [code for code, _ in results] == [5, 5, 5]
    head = "the job failed on 127.0.0.1: worker rank 0 on 127.0.0.1 exited with code 5; before that"
    assert results[FIRST][1].startswith(f"{head} worker rank 0 on 127.0.0.2 exited with code 7")


@pytest.mark.parametrize("stopped", [TRAINING, FIRST])
def test_a_stop_reaches_a_job_that_goes_on_without_a_data_host(job: DataJob, stopped: int) -> None:
    job.begin()
    job.end(FIRST, 7)
    job.hear("is up to 127.0.0.3")
    job.hear("waits for the end", FIRST)
    job.processes[stopped].send_signal(signal.SIGTERM)
    results = job.results()
    assert [code for code, _ in results] == [143, 0, 143]  # two that the signal ended, one with nothing to end
    assert not any((each.base / "output/success").exists() for each in job.jobs)


def test_a_restart_of_all_starts_the_data_host_that_failed_as_well(job: DataJob) -> None:
    job.begin(DLC_MAX_RESTARTS="1")
    job.end(FIRST, 7)
    job.hear("is up to 127.0.0.3")
    job.wait_for_runs(FIRST)
    job.end(TRAINING, 5)
    for number in range(3):
        job.wait_for_runs(number, 2)
    job.end(TRAINING, 0)
    assert job.results() == WELL


@pytest.mark.parametrize(("training", "stated"), [(0, DISTRIBUTED), (2, {})], ids=["it leads", "a data host leads"])
def test_without_a_strategy_too_hosts_that_serve_end_with_those_that_train(
    job: DataJob, training: int, stated: dict[str, list[str]]
) -> None:
    serving = sorted({0, 1, 2} - {training})
    script = SCRIPT.replace("WORD", f"host != {job.names[training]!r}").replace("DLC_VARIABLE", "DLC_SERVES_FILE")
    job.configure(script, {"data": serving, "dnn": [training]}, **stated)
    job.start()
    for number in range(3):
        job.wait_for_runs(number)
    assert [process.poll() for process in job.processes] == [None] * 3
    job.end(training, 0)
    assert job.results() == WELL
    assert job.has_succeeded()
    assert not list(job.folder.glob("**/serves-*"))


def test_a_switch_that_is_neither_1_nor_0_is_refused_before_anything_starts(job: DataJob) -> None:
    groups = {"dnn": [TRAINING], "data": [FIRST, SECOND]}
    job.configure("raise SystemExit('started')", groups, **MULTI_WORKER, **DISTRIBUTED)
    for each in job.jobs:
        each.env(**{MAY_FAIL: "perhaps"})
    job.start()
    for process in job.processes:
        _, stderr = process.communicate(timeout=BOUND)
        assert process.returncode == 78
        assert f"{MAY_FAIL}: a choice; expected 1 or 0; found" in stderr
