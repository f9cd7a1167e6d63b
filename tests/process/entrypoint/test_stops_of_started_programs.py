"""A stop of a script that has started the training as another program: the training is told once, and may save."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hosts import Job
from supervised import Run, Script, start, wait_for, wait_until

from launch.supervision import process_tree

# It takes longer than DLC_END_GRACE (below), needs its worker, and counts how often it is told.
TRAINING = """
import os, pathlib, signal, sys, time
def save(*_):
    with open('told', 'a') as file: file.write('x')
    time.sleep(1.5)
    print('saving', flush=True)
    if os.waitpid(worker, os.WNOHANG)[0]: sys.exit('DataLoader worker is killed by signal: Terminated')
    pathlib.Path('checkpoint').touch()
    os._exit(0)
worker = os.fork()
if worker == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(600)
signal.signal(signal.SIGTERM, save)
pathlib.Path('ready').touch()
while True: time.sleep(600)
"""
GRACES = {"end_grace": 0.3, "stop_grace": 30.0}
PYTHON = f"{sys.executable} -I -S"
MULTIPROCESSING = f"""
import multiprocessing, runpy
def train(): exec({TRAINING!r}, {{'__name__': '__main__'}})
if __name__ == '__main__':
    process = multiprocessing.get_context('METHOD').Process(target=train)
    process.start()
    process.join()
"""
# As torch.multiprocessing.spawn: a rank dies with whoever started it, in the middle of its save.
DIES_WITH_ITS_PARENT = f"""
import ctypes, os
rank = os.fork()
if rank == 0:
    ctypes.CDLL(None).prctl(1, {int(signal.SIGKILL)}, 0, 0, 0)
    exec({TRAINING!r}, {{'__name__': '__main__'}})
os.waitpid(rank, 0)
"""
RUNS = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', 'train.py'])"
OUTER = {
    "subprocess": RUNS,
    "os.system": f"import os; os.system('{PYTHON} train.py; echo')",
    "its output is a pipe": """
import subprocess, sys
training = subprocess.Popen([sys.executable, '-I', '-S', 'train.py'], stdout=subprocess.PIPE)
for line in training.stdout: print(line)
""",
    "a shell with a filter": f"import os; os.system('{PYTHON} train.py | tee log')",
    "multiprocessing fork": MULTIPROCESSING.replace("METHOD", "fork"),
    "multiprocessing spawn": MULTIPROCESSING.replace("METHOD", "spawn"),
    "multiprocessing forkserver": MULTIPROCESSING.replace("METHOD", "forkserver"),
    "a rank that dies with its parent": DIES_WITH_ITS_PARENT,
    "it has a handler and leaves": "import signal; signal.signal(15, lambda *_: os._exit(0))\nimport os\n" + RUNS,
    "it ignores the stop": "import signal; signal.signal(15, signal.SIG_IGN)\n" + RUNS,
    "it watches its children": "import signal; signal.signal(signal.SIGCHLD, lambda *_: None)\n" + RUNS,
    "it left it in the background": RUNS.replace("run(", "Popen(") + "; import time; time.sleep(600)",
    "two scripts": "import os, sys; os.system(sys.executable + ' -I -S subprocess.py')",
}


def stop(running: Run, signum: int = signal.SIGTERM) -> Run:
    running.process.send_signal(signum)
    return running.finish()


def make_scripts(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINING)
    for name, source in OUTER.items():
        (folder / f"{name}.py").write_text(source)


def has_saved(folder: Path, done: Run) -> bool:
    assert (folder / "checkpoint").exists(), done.stderr.decode()
    return (folder / "told").read_text() == "x"


@pytest.mark.parametrize("outer", OUTER)
def test_a_training_that_a_script_has_started_has_the_whole_grace_and_hears_of_the_stop_once(
    tmp_path: Path, outer: str
) -> None:
    make_scripts(tmp_path)
    running = start(tmp_path, Script("", argv=(sys.executable, "-I", "-S", f"{outer}.py")), **GRACES)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert has_saved(tmp_path, done)
    assert b"killed" not in done.stderr


SHELLS = {
    "a shell, a script": f"{PYTHON} subprocess.py; echo",
    "shells": f"sh -c \"sh -c '{PYTHON} train.py; echo'; echo\"; echo",
    "xargs": f"echo train.py | xargs {PYTHON}",
    "make": "make --no-print-directory train",
    "make, a script": "make --no-print-directory outer",
    "find": f"find . -name train.py -exec {PYTHON} {{}} ';'",
    "nohup in the background": f"nohup {PYTHON} train.py & wait",
    "its own session": f"setsid --fork {PYTHON} train.py; sleep 600",
    "a script in the background": f"{PYTHON} subprocess.py & wait",
    "a trap that leaves at once": f"trap 'exit 0' TERM; {PYTHON} train.py & wait",
}


@pytest.mark.parametrize("shape", SHELLS)
def test_a_training_below_shells_and_other_starters_has_it_too(tmp_path: Path, shape: str) -> None:
    make_scripts(tmp_path)
    (tmp_path / "Makefile").write_text(f"train:\n\t{PYTHON} train.py\n\techo\nouter:\n\t{PYTHON} subprocess.py\n")
    if shape.startswith("make") and not shutil.which("make"):
        pytest.skip("make is not installed")
    running = start(tmp_path, Script("", argv=("bash", "-c", SHELLS[shape])), **GRACES)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert has_saved(tmp_path, done)
    assert b"killed" not in done.stderr


def test_trainings_of_two_hosts_have_it_whichever_host_is_stopped(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "127.0.0.2"):
        (tmp_path / host).mkdir()
        make_scripts(tmp_path / host)
    with Job(tmp_path, ("127.0.0.1", "127.0.0.2")) as job:
        hosts = [
            job.start(host, f"import os; os.chdir({host!r})\n{RUNS}", end_grace=0.3, stop_grace=30.0)
            for host in job.hosts
        ]
        for host in job.hosts:
            wait_for(tmp_path / host / "ready")
        hosts[1].process.terminate()
        for host, ended in zip(job.hosts, hosts, strict=True):
            ended.finish()
            assert (tmp_path / host / "checkpoint").exists(), ended.stderr
            assert (tmp_path / host / "told").read_text() == "x"


def test_a_script_goes_on_when_the_training_that_it_started_has_saved(tmp_path: Path) -> None:
    """What it does then, such as an upload, has DLC_END_GRACE."""
    make_scripts(tmp_path)
    (tmp_path / "outer.py").write_text(RUNS + "\nimport pathlib; pathlib.Path('uploaded').touch()")
    running = start(tmp_path, Script("", argv=(sys.executable, "-I", "-S", "outer.py")), stop_grace=30.0)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert has_saved(tmp_path, done)
    assert (done.exit_code, (tmp_path / "uploaded").exists()) == (0, True)


def test_a_script_that_starts_the_next_training_is_told_in_its_turn(tmp_path: Path) -> None:
    make_scripts(tmp_path)
    (tmp_path / "outer.py").write_text(f"{RUNS}\nimport time; time.sleep(600)")
    running = start(tmp_path, Script("", argv=(sys.executable, "-I", "-S", "outer.py")), **GRACES)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert has_saved(tmp_path, done)
    assert done.exit_code == 128 + signal.SIGTERM


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_stop_by_two_kinds_of_signals_reaches_a_script_once_as_sigterm(tmp_path: Path, second: int) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    running = start(tmp_path, Script("", argv=(sys.executable, "-I", "-S", "train.py")), **GRACES)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGHUP)
    wait_for(tmp_path / "told")
    assert has_saved(tmp_path, stop(running, second))


def test_what_a_main_process_leaves_behind_is_told_once(tmp_path: Path) -> None:
    """A shell that goes on holds up the end of the rest."""
    (tmp_path / "train.py").write_text(TRAINING)
    leaves = (
        f"import subprocess, sys, signal; signal.signal(15, lambda *_: sys.exit(0))\n{RUNS.replace('run(', 'Popen(')}"
    )
    (tmp_path / "outer.py").write_text(leaves + "; import time; time.sleep(600)")
    running = start(tmp_path, Script("", argv=("bash", "-c", f"{PYTHON} outer.py; sleep 0.5; echo")), **GRACES)
    wait_for(tmp_path / "ready")
    assert has_saved(tmp_path, stop(running))


def test_below_slurm_a_training_is_told_once_if_slurm_told_every_process(tmp_path: Path) -> None:
    make_scripts(tmp_path)
    in_slurm = "os.environ['SLURM_JOB_ID'] = '7'; from launch.supervision import canary; "
    before = f"{in_slurm}canary._has_cgroup_of_step = lambda: False"
    running = start(tmp_path, Script("", argv=(sys.executable, "-I", "-S", "subprocess.py")), before=before, **GRACES)
    wait_for(tmp_path / "ready")
    for pid in (running.process.pid, *process_tree.find_descendants(running.process.pid)):
        os.kill(pid, signal.SIGTERM)
    running.finish()
    assert (tmp_path / "told").read_text() == "x"


# A stopped job that reports 0 has lost nothing

STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path('ready').touch()
while True: time.sleep(600)
"""


@pytest.mark.parametrize(
    "command",
    ["python stubborn.py & exit_0_at_the_stop", "trap '' TERM; python stubborn.py; exit 0", "outer that leaves"],
)
def test_a_stopped_job_in_which_a_process_had_to_be_killed_never_reports_0(tmp_path: Path, command: str) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    leaves = "import os, signal, subprocess, sys, time; signal.signal(15, lambda *_: os._exit(0))\n"
    (tmp_path / "outer.py").write_text(
        leaves + "subprocess.Popen([sys.executable, '-I', '-S', 'stubborn.py']); time.sleep(600)"
    )
    script = {
        "python stubborn.py & exit_0_at_the_stop": f"trap 'exit 0' TERM; {PYTHON} stubborn.py & wait",
        "outer that leaves": f"exec {PYTHON} outer.py",
    }.get(command, f"trap '' TERM; {PYTHON} stubborn.py; exit 0")
    running = start(tmp_path, Script("", argv=("bash", "-c", script)), end_grace=0.2, stop_grace=1.0)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert done.exit_code == 128 + signal.SIGKILL
    assert done.failure["cause"].startswith("stopped by SIGTERM: ")
    assert "still running 1 s later" in done.failure["cause"]
    assert "(gone)" not in done.stderr.decode() + done.failure["cause"]


def test_a_stopped_job_whose_killed_process_cannot_be_reaped_never_reports_0(tmp_path: Path) -> None:
    """A tracer that does not wait for its tracee keeps the launcher from reaping it, as a hanging kernel does."""
    running = start(tmp_path, STUBBORN, stop_grace=0.3, stop_margin=1.0)
    wait_for(tmp_path / "ready")
    [training] = process_tree.find_descendants(running.process.pid)
    tracer = os.fork()
    if tracer == 0:
        ctypes.CDLL(None).ptrace(0x4206, training, 0, 0)  # PTRACE_SEIZE
        (tmp_path / "traced").touch()
        signal.pause()
    try:
        wait_for(tmp_path / "traced")
        wait_until(lambda: f"TracerPid:\t{tracer}" in Path(f"/proc/{training}/status").read_text())
        done = stop(running)
    finally:
        os.kill(tracer, signal.SIGKILL)
        os.waitpid(tracer, 0)
    assert done.exit_code == 128 + signal.SIGKILL
    assert "stopped by SIGTERM" in done.failure["cause"]
    assert str(training) in done.failure["cause"]
