"""`dlc run --watch`: TensorBoard of a job that runs, here or in a container; nothing of it is there after the job.

TensorBoard is a stand-in here, as the engine is. tests/integration/test_run_detached.py has the image's own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlc.core.errors import ImageError

BOUND_SECONDS = 300.0
TRAIN = """
import os, time
while not os.path.exists(os.environ['STAND_IN_DOCKER'] + '/go'): time.sleep(0.05)
print('trained')
"""
# It prints what TensorBoard does, and leaves its number and its arguments.
TENSORBOARD = """
import os, pathlib, sys, time
pathlib.Path(os.environ['STAND_IN_DOCKER'], 'watch').write_text(f"{os.getpid()} {' '.join(sys.argv[1:])}")
print('TensorBoard 2.21.0 at http://localhost:4711/ (Press CTRL+C to quit)', file=sys.stderr, flush=True)
time.sleep(600)
"""
BROKEN = "import sys; sys.exit('ImportError: no protobuf')"


@pytest.fixture
def train(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job, on a machine without a TensorBoard of its own."""
    (folder / "train.py").write_text(TRAIN)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    return folder


def install(folder: Path, text: str) -> None:
    program = folder / "bin/tensorboard"
    (folder / "tensorboard.py").write_text(text)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/tensorboard.py "$@"\n')
    program.chmod(0o755)


@contextmanager
def run(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "dlc", "run", "--name", "mine", "--watch", *words, "dlc/some:1", "train.py"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.kill()


def read_until(child: subprocess.Popen[str], pattern: str) -> str:
    assert child.stderr
    for line in child.stderr:
        if found := re.search(pattern, line):
            return found[1] if found.groups() else found[0]
    raise AssertionError(f"{pattern} was not said")


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie that its parent has yet to wait for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_end(pid: int) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def await_file(path: Path) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def left(folder: Path) -> list[str]:
    """Containers, networks and claims."""
    names = sorted(path.name for path in [*(folder / "docker").iterdir(), *(folder / "cache/jobs").glob("*")])
    return [name for name in names if name not in ("go", "watch")]


def test_tensorboard_of_this_machine_shows_the_hosts_and_ends_with_the_job(train: Path) -> None:
    install(train, TENSORBOARD)
    with run(train, "--hosts", "2") as child:
        assert read_until(child, r"tensorboard of this job, until it ends: (\S+)") == "http://localhost:4711/"
        pid, words = (train / "docker/watch").read_text().split(" ", 1)
        assert words == f"--logdir {train}/dlc-jobs/mine/hosts --host 127.0.0.1 --port 0"
        (train / "docker/go").touch()
        _, said = child.communicate(timeout=BOUND_SECONDS)
    assert child.returncode == 0
    assert "tensorboard has ended" not in said
    assert not is_running(int(pid))
    assert left(train) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_a_job_that_is_stopped_and_with_a_dlc_that_is_killed(number: signal.Signals, train: Path) -> None:
    install(train, TENSORBOARD)
    with run(train) as child:
        read_until(child, "tensorboard of this job")
        pid = int((train / "docker/watch").read_text().split()[0])
        child.send_signal(number)
        child.wait(BOUND_SECONDS)
        await_end(pid)
    if number == signal.SIGKILL:
        await_file(train / "docker/dlc-mine-algo-1.container")
        assert dlc(train, "stop", "mine").returncode == 0
    assert left(train) == []


def test_without_one_here_the_image_shows_the_job_and_its_container_is_removed(train: Path) -> None:
    with run(train, "--user", "7") as child:
        assert read_until(child, r"until it ends: (\S+)") == "http://127.0.0.1:32768/"
        state = json.loads((train / "docker/dlc-mine-tensorboard.container").read_text())
        words = " ".join(state["Words"])
        assert "--publish 127.0.0.1::6006" in words
        assert f"source={train}/dlc-jobs/mine/hosts,target=/watched,readonly" in words
        assert "--user 7 --entrypoint tensorboard dlc/some:1 --logdir /watched" in words
        told = json.loads(dlc(train, "ps", "--json").stdout)
        assert list(told[0]["hosts"]) == ["algo-1"]
        (train / "docker/go").touch()
        child.communicate(timeout=BOUND_SECONDS)
    assert child.returncode == 0
    assert left(train) == []


def test_without_any_the_error_names_both_places_and_nothing_is_left(train: Path) -> None:
    (train / "docker/without-tensorboard").touch()
    done = dlc(train, "run", "--watch", "dlc/some:1", "train.py")
    assert done.returncode == ImageError.exit_code
    assert "--watch: expected tensorboard on this machine or in dlc/some:1, found none" in done.stderr
    assert "pip install tensorboard here, or leave out --watch" in done.stderr
    assert not (train / "dlc-jobs").exists()
    assert [name for name in left(train) if name != "without-tensorboard"] == []


def test_one_that_ends_by_itself_is_said_and_the_job_goes_on(train: Path) -> None:
    install(train, BROKEN)
    with run(train) as child:
        assert "ImportError: no protobuf" in read_until(child, "tensorboard has ended, the job goes on.*")
        (train / "docker/go").touch()
        out, _ = child.communicate(timeout=BOUND_SECONDS)
    assert (child.returncode, out) == (0, "trained\n")


def test_what_shows_the_job_is_explained(train: Path) -> None:
    done = dlc(train, "run", "--watch", "--explain", "--json", "dlc/some:1", "train.py")
    assert json.loads(done.stdout)["watch"].startswith("docker run --detach --pull never --name dlc-")
    install(train, TENSORBOARD)
    done = dlc(train, "run", "--watch", "--explain", "dlc/some:1", "train.py")
    assert "tensorboard --logdir" in done.stdout.splitlines()[-1]


def dlc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlc", *words],
        cwd=folder, env=os.environ, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
