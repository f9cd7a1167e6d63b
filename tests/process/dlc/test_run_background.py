"""Jobs in the background: started, listed, read, entered, stopped; their dlc does what one on a terminal does.

Containers are processes here (stand_in_docker.py); tests/integration/test_run_detached.py has real ones.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlc.core.errors import DlcError, EngineError, ImageError, UsageError

BOUND_SECONDS = 300.0
SAVE = """
import os, signal, sys, time
def save(*_):
    time.sleep(1.2)
    open(os.environ['SM_MODEL_DIR'] + '/saved', 'w').close()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print('ready', sys.argv[1:], flush=True)
while True: time.sleep(0.1)
"""


def dlc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlc", *words],
        cwd=folder, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip


def start(
    folder: Path, text: str, *words: str, image: str = "dlc/some:1", behind: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    return dlc(folder, "run", "--detach", *words, image, "train.py", *behind)


def wait_for(folder: Path, job: str, text: str) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while text not in dlc(folder, "logs", job).stdout:
        assert time.monotonic() < deadline, dlc(folder, "logs", job)


def left(folder: Path) -> list[str]:
    """Containers, networks and claims."""
    return sorted(path.name for path in [*(folder / "docker").iterdir(), *(folder / "cache/jobs").glob("*")])


def test_a_job_of_the_background_is_listed_read_entered_and_stopped(folder: Path) -> None:
    started = start(folder, SAVE, "--name", "mine", "--hosts", "2")
    assert (started.returncode, started.stdout) == (0, "mine\n"), started.stderr
    assert "dlc logs mine -f" in started.stderr
    wait_for(folder, "mine", "[algo-1] ready")
    wait_for(folder, "mine", "[algo-2] ready")

    [job] = json.loads(dlc(folder, "ps", "--json").stdout)
    assert (job["id"], job["state"], job["image"]) == ("mine", "runs", "dlc/some:1")
    assert job["hosts"] == {"algo-1": "running", "algo-2": "running"}
    assert job["folder"] == str(folder / "dlc-jobs/mine")
    assert "mine  runs   2 running" in dlc(folder, "ps").stdout

    entered = dlc(folder, "exec", "mine", "algo-2", "sh", "-c", "pwd; exit 7")
    assert (entered.returncode, entered.stdout.strip()) == (7, str(folder / "dlc-jobs/mine/hosts/algo-2/code"))

    again = start(folder, SAVE, "--name", "mine", "--output", "elsewhere")
    assert again.returncode == UsageError.exit_code
    assert "--name mine: expected a name that no job has" in again.stderr
    assert not (folder / "elsewhere").exists()

    stopped = dlc(folder, "stop", "mine")
    assert stopped.returncode == 0, stopped.stderr
    # How long it took, because it took more than a second.
    assert re.search(r"^ +[0-9.]+ s  mine  ends$", stopped.stderr, re.MULTILINE)
    assert (folder / "dlc-jobs/mine/model/saved").is_file()
    assert left(folder) == []
    (folder / "other").mkdir()
    said = dlc(folder / "other", "logs", "mine", "-f").stdout
    assert "dlc: stopping algo-1, algo-2: 30 s to save" in said
    assert "job mine has ended: algo-1 143, algo-2 143" in said
    assert dlc(folder, "ps").stderr == "no job runs\n"

    over_it = start(folder, SAVE, "--name", "mine")
    assert over_it.returncode == DlcError.exit_code
    assert "expected a folder without the results of another job" in over_it.stderr
    assert (folder / "dlc-jobs/mine/model/saved").is_file()


def test_a_file_is_submitted_to_this_machine_followed_and_ended_with_its_code(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os, sys\nprint('trained', len(os.environ['MY_TOKEN']), flush=True)\nsys.exit(7)\n"
    )
    (folder / "job.yml").write_text(
        "image: dlc/some:1\nscript: train.py\nname: mine\nenvironment: {MY_TOKEN: s3cret}\n"
    )
    done = dlc(folder, "submit", "job.yml", "--to", "local", "--wait")
    assert done.returncode == 7, done.stderr
    assert "trained 6" in done.stdout
    assert "s3cret" not in (folder / "dlc-jobs/mine/job.yml").read_text() + done.stdout
    [ended] = json.loads(dlc(folder, "ps", "--all", "--json").stdout)
    assert (ended["id"], ended["code"]) == ("mine", 7)
    assert "trained 6" in dlc(folder, "logs", "mine").stdout
    assert left(folder) == []
    again = dlc(folder, "submit", "job.yml", "--to", "local")
    assert again.returncode == DlcError.exit_code
    assert "expected a folder without the results of another job" in again.stderr


def test_a_follower_of_the_lines_ends_with_the_job(folder: Path) -> None:
    (folder / "docker/go").touch()
    text = """
import os, time
while os.path.exists(os.environ['STAND_IN_DOCKER'] + '/go'): time.sleep(0.05)
print('trained')
"""
    assert start(folder, text, "--name", "mine").returncode == 0
    with subprocess.Popen(
        [sys.executable, "-m", "dlc", "logs", "mine", "--follow"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout
        try:
            # First dlc says the limit of memory, and on a busy host that it waits for the engine.
            while (line := follower.stdout.readline()) != "dlc: job mine starts on algo-1\n":
                assert line.startswith("dlc: ")
        finally:
            # Else the follower would be waited for without an end.
            (folder / "docker/go").unlink()
        rest = follower.stdout.read()
    assert follower.returncode == 0
    assert rest.startswith("trained\ndlc: job mine has ended: algo-1 0\n")


def test_what_keeps_a_job_from_starting_is_said_at_once_and_leaves_nothing(folder: Path) -> None:
    done = start(folder, "", image="dlc/none:1")
    assert (done.returncode, done.stdout) == (ImageError.exit_code, "")
    assert "dlc/none:1: the engine has no such image" in done.stderr
    assert not (folder / "dlc-jobs").exists()
    assert left(folder) == []


def test_the_background_gets_the_command_as_it_was_typed(folder: Path) -> None:
    text = "import os, sys; print(sys.argv[1:], os.environ['A'])"
    done = start(folder, text, "--env", "A=--detach", "--json", behind=("--detach", "5"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    followed = dlc(folder, "logs", told["job"], "-f")
    assert Path(told["log"]).read_text() == followed.stdout
    assert "--detach" in followed.stdout


def test_a_job_whose_dlc_was_killed_is_stopped_and_removed(folder: Path) -> None:
    assert start(folder, SAVE, "--name", "mine").returncode == 0
    wait_for(folder, "mine", "ready")
    [job] = json.loads(dlc(folder, "ps", "--json").stdout)
    os.kill(job["pid"], signal.SIGKILL)
    deadline = time.monotonic() + BOUND_SECONDS
    while json.loads(dlc(folder, "ps", "--json").stdout)[0]["state"] != "left behind":
        assert time.monotonic() < deadline
    done = dlc(folder, "stop", "mine")
    assert (done.returncode, "left by a killed dlc; removed dlc-mine-algo-1, dlc-mine" in done.stderr) == (0, True)
    assert (folder / "dlc-jobs/mine/hosts/algo-1/model/saved").is_file()
    assert left(folder) == []


def test_a_job_whose_dlc_is_suspended_is_stopped(folder: Path) -> None:
    assert start(folder, SAVE, "--name", "mine").returncode == 0
    wait_for(folder, "mine", "ready")
    [job] = json.loads(dlc(folder, "ps", "--json").stdout)
    os.kill(job["pid"], signal.SIGSTOP)
    done = dlc(folder, "stop", "mine")
    assert (done.returncode, "mine has ended" in done.stderr) == (0, True), done.stderr
    assert (folder / "dlc-jobs/mine/model/saved").is_file()
    assert left(folder) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["logs", "nobody"], "nobody: expected a job that runs, found none"),
        (["logs", "./nobody"], "./nobody: expected the folder of a job of the background"),
        (["stop", "nobody"], "nobody: expected a job that runs, found none"),
        (["exec", "nobody", "true"], "nobody: expected a job that runs, found none"),
    ],
)
def test_a_job_that_is_none_is_a_wrong_command_line(folder: Path, words: list[str], expected: str) -> None:
    done = dlc(folder, *words)
    assert (done.returncode, expected in done.stderr) == (UsageError.exit_code, True), done.stderr


def test_without_an_engine_ps_says_so_and_lists_what_it_knows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache/jobs").mkdir(parents=True)
    (folder / "cache/jobs/old").write_text("unix:///of-an-older-dlc.sock")
    (folder / "bin/docker").write_text("#!/bin/sh\nexit 1\n")
    done = dlc(folder, "ps", "--json")
    assert done.returncode == 0
    assert "nothing is known of the hosts" in done.stderr
    [job] = json.loads(done.stdout)
    assert (job["id"], job["state"], job["hosts"]) == ("old", "left behind", None)
    assert dlc(folder, "exec", "old").returncode == EngineError.exit_code
