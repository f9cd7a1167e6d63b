"""A stop on real processes: the main ones are told first and once, and the work is saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from real_launcher import launched, runnable_job
from supervised import HANG_BOUND, Run, Script, start, wait_for, wait_until

from harness.job_folder import JobFolder
from launch.job import source
from launch.supervision import process_tree

LARGE = 4 << 30  # bytes

# As a script with DataLoader(num_workers=1): it saves some steps after the signal, and each needs its worker.
WITH_A_WORKER = """
import os, pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
worker = os.fork()
if worker == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(600)
pathlib.Path('ready').touch()
while not told: time.sleep(0.01)
for step in range(20):
    time.sleep(0.02)
    if os.waitpid(worker, os.WNOHANG)[0]: sys.exit('DataLoader worker is killed by signal: Terminated')
pathlib.Path('checkpoint').write_text(str(len(told)))
"""
SAVES_ITS_PID = """
import os, pathlib, signal, sys, time
def save(*_):
    pathlib.Path('saved').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path('part').write_text(str(os.getpid()))
os.rename('part', 'pid')
time.sleep(600)
"""


# A second SIGTERM ends it while it saves.
SAVES_ONCE = """
import pathlib, signal, sys, time
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(1.5)
    pathlib.Path('saved').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path('ready').touch()
time.sleep(600)
"""


def stop(running: Run, signum: int = signal.SIGTERM) -> Run:
    running.process.send_signal(signum)
    return running.finish()


def shell(script: str) -> Script:
    return Script("", argv=("bash", "-c", script))


@pytest.mark.parametrize("reached", ["all processes", "the launcher"])
def test_below_slurm_a_script_hears_of_a_stop_once_however_slurm_sends_it(tmp_path: Path, reached: str) -> None:
    in_slurm = "os.environ['SLURM_JOB_ID'] = '7'; from launch.supervision import canary; "
    running = start(tmp_path, SAVES_ONCE, before=f"{in_slurm}canary._has_cgroup_of_step = lambda: False")
    wait_for(tmp_path / "ready")
    below = process_tree.find_descendants(running.process.pid)
    assert sorted(process_tree.command_of(pid)[0] for pid in below) == sorted([sys.executable, "sleep"])
    if reached == "all processes":
        for pid in below:
            os.kill(pid, signal.SIGTERM)
    done = stop(running)
    assert (done.exit_code, (tmp_path / "saved").exists()) == (0, True), done.stderr


def test_a_worker_lives_until_its_script_has_saved(tmp_path: Path) -> None:
    running = start(tmp_path, WITH_A_WORKER)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert (tmp_path / "checkpoint").read_text() == "1"
    assert done.exit_code == 0
    assert done.outcome["stopped"]


def test_a_worker_lives_also_below_a_shell_and_its_log_is_written_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_A_WORKER + "print('last words')\n")
    running = start(tmp_path, shell(f"{sys.executable} train.py | tee log; exit ${{PIPESTATUS[0]}}"))
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0
    assert (tmp_path / "checkpoint").exists()
    assert "last words" in (tmp_path / "log").read_text()


def test_what_a_shell_does_after_the_training_is_done_is_done(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_A_WORKER)
    running = start(tmp_path, shell(f"{sys.executable} train.py; sleep 0.2; cp checkpoint copied"))
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0
    assert (tmp_path / "copied").exists()


def test_a_shells_own_trap_is_called(tmp_path: Path) -> None:
    running = start(tmp_path, shell("trap 'touch trapped; exit 0' TERM; touch ready; while true; do sleep 0.1; done"))
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0
    assert (tmp_path / "trapped").exists()


def test_a_process_that_a_trap_passes_the_signal_on_to_gets_it_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_A_WORKER)
    script = f"{sys.executable} train.py & pid=$!; trap 'kill -TERM $pid' TERM; wait $pid; wait $pid"
    running = start(tmp_path, shell(script))
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0
    assert (tmp_path / "checkpoint").read_text() == "1"


def test_all_else_is_told_when_the_main_ones_have_ended(tmp_path: Path) -> None:
    source = """
import os, pathlib, signal, sys, time
if os.fork() == 0:
    os.setsid()
    def told(*_):
        pathlib.Path('logger').write_text(str(os.path.exists('saved')))
        os._exit(0)
    signal.signal(signal.SIGTERM, told)
    pathlib.Path('ready').touch()
    time.sleep(600)
def save(*_):
    time.sleep(0.3)
    pathlib.Path('saved').touch()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
time.sleep(600)
"""
    running = start(tmp_path, source)
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0
    assert (tmp_path / "logger").read_text() == "True"


def test_all_else_is_told_when_the_grace_ran_out(tmp_path: Path) -> None:
    source = """
import os, pathlib, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path('told').touch(), os._exit(0)))
    pathlib.Path('ready').touch()
    time.sleep(600)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: time.sleep(600)
"""
    running = start(tmp_path, source, stop_grace=0.3)
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 128 + signal.SIGKILL
    assert (tmp_path / "told").exists()


def test_a_server_that_the_workers_need_is_told_after_them(tmp_path: Path) -> None:
    server = "import time, pathlib; pathlib.Path('serving').write_text(str(__import__('os').getpid())); time.sleep(600)"
    worker = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    sys.exit(0 if os.path.exists('/proc/' + pathlib.Path('serving').read_text()) else 'the server is gone')
signal.signal(signal.SIGTERM, save)
pathlib.Path('ready').touch()
time.sleep(600)
"""
    running = start(tmp_path, Script(server, role="ps", rank=1, essential=False), Script(worker, rank=0))
    wait_for(tmp_path / "serving")
    wait_for(tmp_path / "ready")
    assert stop(running).exit_code == 0


def test_a_paused_process_goes_on_to_save(tmp_path: Path) -> None:
    running = start(tmp_path, SAVES_ITS_PID)
    pid = int(wait_for(tmp_path / "pid"))
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert stop(running).exit_code == 0
    assert (tmp_path / "saved").exists()


def test_a_stop_is_heard_where_whoever_started_the_launcher_had_blocked_it(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        running = start(tmp_path, SAVES_ITS_PID)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    wait_for(tmp_path / "pid")
    assert stop(running).exit_code == 0
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGQUIT])
def test_a_terminal_that_goes_away_is_a_stop(tmp_path: Path, signum: signal.Signals) -> None:
    running = start(tmp_path, WITH_A_WORKER)
    wait_for(tmp_path / "ready")
    assert stop(running, signum).exit_code == 0
    assert (tmp_path / "checkpoint").exists()


def test_a_second_sigterm_is_not_passed_on(tmp_path: Path) -> None:
    running = start(tmp_path, WITH_A_WORKER)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert stop(running).exit_code == 0
    assert (tmp_path / "checkpoint").read_text() == "1"


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return runnable_job(tmp_path)


SAVES = (
    "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(0))\nprint('ready', flush=True)\ntime.sleep(600)"
)


@pytest.mark.parametrize(("stated", "code", "files"), [("", 0, ["data"]), ("143", 143, ["data", "failure"])])
def test_a_clean_stop_is_no_success_and_has_the_exit_code_that_is_wanted(
    job: JobFolder, stated: str, code: int, files: list[str]
) -> None:
    process = launched(job.code(text=SAVES).env(DLC_STOPPED_EXIT_CODE=stated))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=HANG_BOUND)
    assert process.returncode == code
    assert sorted(path.name for path in (job.base / "output").iterdir()) == files


@pytest.mark.parametrize("name", ["hyperparameters", "resourceconfig"])
def test_a_stop_while_a_config_file_is_a_fifo_ends_at_once(job: JobFolder, name: str) -> None:
    put_fifo(job, name)
    process = launched(job.code(text=SAVES), constants={"launch.main.STOP_SECONDS": 1.0})
    stderr = stopped_at_the_fifo(process, signal.SIGTERM)
    assert "stopped by SIGTERM" in stderr


@pytest.mark.parametrize("verb", ["--explain", "--preflight"])
def test_ctrl_c_ends_whatever_reads_the_config_files(job: JobFolder, verb: str) -> None:
    put_fifo(job, "hyperparameters")
    process = launched(job.code(text=SAVES), verb)
    assert stopped_at_the_fifo(process, signal.SIGINT) == "dlc: stopped by SIGINT\n"


def put_fifo(job: JobFolder, name: str) -> None:
    path = job.base / f"input/config/{name}.json"
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def stopped_at_the_fifo(process: subprocess.Popen[str], signum: int) -> str:
    """What a launcher says on stderr that gets the signal while it waits for the FIFO's other end."""
    while not opens(process.pid):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=HANG_BOUND)
    assert process.returncode == 128 + signum
    return stderr


@pytest.mark.parametrize("kind", [source.ARCHIVE, source.DIRECTORY])
def test_a_stop_while_the_code_is_put_in_place_ends_at_once_and_leaves_no_half_of_it(
    job: JobFolder, tmp_path: Path, kind: str
) -> None:
    origin = tmp_path / ("code" if kind == source.DIRECTORY else "code.tar")
    if kind == source.DIRECTORY:
        origin.mkdir()
        grow(origin / "weights")
    else:
        member = tarfile.TarInfo("weights")
        member.size = LARGE
        origin.write_bytes(member.tobuf())
        grow(origin)
    process = launched(job.hyperparameters(sagemaker_submit_directory=str(origin)))
    while not (job.base / "code/weights").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    _, stderr = process.communicate(timeout=HANG_BOUND)
    assert process.returncode == 128 + signal.SIGTERM
    assert stderr == "dlc: stopped by SIGTERM\n"  # before it says what it would have started
    assert list((job.base / "code").iterdir()) == []


def grow(path: Path) -> None:
    """Add a hole: what takes no room here takes seconds to copy."""
    with path.open("ab") as file:
        file.truncate(file.tell() + LARGE)


def opens(pid: int) -> bool:
    """Whether the process waits for the other end of a FIFO."""
    return "wait_for_partner" in Path(f"/proc/{pid}/wchan").read_text() or "fifo" in Path(
        f"/proc/{pid}/stack"
    ).read_text(errors="replace")


def test_a_second_ctrl_c_kills_at_once_and_the_reason_says_so(tmp_path: Path) -> None:
    stubborn = """
import signal, pathlib, time
signal.signal(signal.SIGINT, lambda *_: pathlib.Path('told').touch())
pathlib.Path('ready').touch()
while True: time.sleep(600)
"""
    running = start(tmp_path, stubborn, stop_grace=HANG_BOUND)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGINT)
    wait_for(tmp_path / "told")
    done = stop(running, signal.SIGINT)
    assert done.exit_code == 137
    assert "was ended by SIGKILL, because SIGINT came twice" in done.failure["cause"]
    assert b"killed, SIGINT came twice" in done.stderr
    assert b"still running" not in done.stderr


def test_the_worst_stop_is_over_within_the_platforms_time(tmp_path: Path) -> None:
    stubborn = """
import os, signal, pathlib, time
for signum in (signal.SIGTERM, signal.SIGINT): signal.signal(signum, signal.SIG_IGN)
for _ in range(3): os.fork()
pathlib.Path('ready').touch()
time.sleep(600)
"""
    running = start(tmp_path, stubborn, stop_grace=1.0, stop_margin=3.0)
    wait_for(tmp_path / "ready")
    stop(running)  # which waits HANG_BOUND at most: the script would run ten times as long
    assert json.loads((tmp_path / "result.json").read_text())["exit_code"] == 137
