"""Jobs in the background and shells, with real containers: what a user types into a terminal reaches them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.labels import JOB
from dlc.inspection.reproducible import REPOSITORY as REBUILDS
from dlc.places.local.lifecycle import remove_containers
from harness.browser import needs_browser, open_browser
from harness.dlc_run import left
from harness.engine import CALM_OPTIONS, HANG_BOUND, connect, docker
from harness.images import Image
from harness.toy import command, environment

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SAVE = Path(__file__).parent / "scripts/save_on_sigterm.py"
NAME = f"test-in-the-background-{os.getpid()}"


class Dlc:
    """dlc, called in one folder with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = environment(DLC_CACHE_DIR=str(folder / "cache"))

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*words), cwd=self.folder, env=self.settings, capture_output=True, text=True,
            timeout=HANG_BOUND, check=False,
        )  # fmt: skip

    def typed(self, *words: str, text: str) -> str:
        """What a terminal shows of a command into which somebody types `text`, until it ends."""
        master, slave = pty.openpty()
        child = subprocess.Popen(command(*words), cwd=self.folder, env=self.settings, stdin=slave, stdout=slave,
                                 stderr=slave, start_new_session=True)  # fmt: skip
        os.close(slave)
        os.write(master, text.encode())
        shown = b""
        while True:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
        child.wait(HANG_BOUND)
        os.close(master)
        return shown.decode(errors="replace")


@pytest.fixture
def dlc(tmp_path: Path) -> Iterator[Dlc]:
    (tmp_path / "train.py").write_text(SAVE.read_text())
    yield Dlc(tmp_path)
    remove_containers(connect(), NAME)


def test_a_job_of_the_background_is_read_entered_and_stopped(image: Image, dlc: Dlc) -> None:
    words = ("--hosts", "2", "--detach", "--name", NAME, *CALM_OPTIONS, image.ref, "train.py")
    started = dlc("run", *words, "--any", "5")
    assert (started.returncode, started.stdout) == (0, f"{NAME}\n"), started.stderr
    deadline = time.monotonic() + HANG_BOUND
    while dlc("logs", NAME).stdout.count("ready to be stopped") < 2:
        assert time.monotonic() < deadline, dlc("logs", NAME)
    [job] = [job for job in json.loads(dlc("ps", "--json").stdout) if job["id"] == NAME]
    while job["hosts"] is None:  # a busy engine did not answer at once
        assert time.monotonic() < deadline
        [job] = [job for job in json.loads(dlc("ps", "--json").stdout) if job["id"] == NAME]
    assert (job["state"], job["hosts"]) == ("runs", {"algo-1": "running", "algo-2": "running"})
    shown = dlc.typed("exec", NAME, "algo-2", text="hostname; echo $((6 * 7)); python --version; exit\n")
    assert re.search(r"(?s)algo-2.*\b42\b.*Python 3\.", shown), shown
    processes = dlc("exec", NAME, "sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline")
    assert "train --any 5" in processes.stdout, processes.stderr
    stopped = dlc("stop", NAME)
    assert stopped.returncode == 0, stopped.stderr
    assert (dlc.folder / "dlc-jobs" / NAME / "model/saved-on-signal").is_file()
    assert not [
        *left("ps", "--all", job=NAME),
        *left("network", "ls", job=NAME),
        *(dlc.folder / "cache/jobs").iterdir(),
    ]
    assert f"job {NAME} has ended: algo-1 0, algo-2 0" in dlc("logs", NAME, "-f").stdout
    cleaned = dlc("clean", "--jobs", "--yes")
    assert (cleaned.returncode, (dlc.folder / "dlc-jobs").exists()) == (0, False), cleaned.stderr


def test_the_lines_of_a_job_of_another_terminal_come_from_its_containers(image: Image, dlc: Dlc) -> None:
    words = ("--hosts", "2", "--name", NAME, *CALM_OPTIONS, image.ref, "train.py")
    with subprocess.Popen(
        command("run", *words), cwd=dlc.folder, env=dlc.settings, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout
        while "ready" not in job.stdout.readline():
            assert job.poll() is None
        assert "ready to be stopped" in dlc("logs", NAME).stdout
        assert dlc("stop", NAME).returncode == 0
        job.communicate(timeout=HANG_BOUND)
    assert job.returncode == 130


def watch_job(image: Image, dlc: Dlc) -> str:
    """Start a job in the background; return the address at which TensorBoard shows it."""
    started = dlc("run", "--detach", "--watch", "--name", NAME, *CALM_OPTIONS, image.ref, "train.py")
    assert started.returncode == 0, started.stderr
    deadline = time.monotonic() + HANG_BOUND
    while not (found := re.search(r"tensorboard of this job, until it ends: (\S+)", dlc("logs", NAME).stdout)):
        assert time.monotonic() < deadline, dlc("logs", NAME)
    return found[1]


def test_tensorboard_shows_a_job_while_it_runs_and_ends_with_it(image: Image, dlc: Dlc) -> None:
    address = watch_job(image, dlc)
    with urllib.request.urlopen(f"{address}data/environment", timeout=HANG_BOUND) as answer:
        assert "version" in json.load(answer)
    assert dlc("stop", NAME).returncode == 0
    assert not [*left("ps", "--all", job=NAME), *left("network", "ls", job=NAME)]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=HANG_BOUND)


@needs_browser
def test_tensorboard_of_a_job_opens_in_a_browser(image: Image, dlc: Dlc) -> None:
    address = watch_job(image, dlc)
    with open_browser(dlc.folder) as browser:
        browser.show(address, 1280)
        deadline = time.monotonic() + HANG_BOUND
        while "TensorBoard" not in browser.evaluate("document.body.innerText"):
            assert time.monotonic() < deadline, browser.errors
            time.sleep(0.1)
        assert browser.evaluate("document.title") == "TensorBoard"
        assert browser.errors == []
    assert dlc("stop", NAME).returncode == 0


@pytest.mark.core
def test_a_shell_has_this_folder_and_the_images_python(image: Image, dlc: Dlc) -> None:
    shown = dlc.typed("shell", image.ref, text="pwd; touch written; which python; exit 0\n")
    assert "/work" in shown
    assert "/opt/venv/bin/python" in shown
    assert (dlc.folder / "written").stat().st_uid == os.getuid()
    done = dlc("shell", image.ref, "python", "-c", "import torch, sys; sys.exit(7)")
    assert done.returncode == 7, done.stderr
    assert docker("ps", "--all", "--quiet", "--filter", f"label={JOB}={NAME}").stdout == ""


def test_clean_names_images_that_set_made_but_no_image_in_use(image: Image, dlc: Dlc) -> None:
    made, rebuilt = f"{image.ref}-set-0123abcd", f"{REBUILDS}:runs"
    docker("tag", image.ref, made)
    docker("tag", image.ref, rebuilt)
    try:
        found = json.loads(dlc("clean", "--images", "--json").stdout)["images"]
        assert made in found
        assert image.ref not in found
        assert all("-set-" in ref for ref in found)
    finally:
        docker("image", "rm", "--no-prune", made, rebuilt)
