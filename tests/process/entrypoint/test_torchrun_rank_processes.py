"""torchrun's ranks as processes: prefixes, exit codes, signals, no child that a rank did not make; torchrun's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.base import process_spec
from launch.base.errors import Failure
from launch.supervision.failure_cause import root_cause
from launch.supervision.rank_files import RankFolder

BOUND = 60  # seconds; only a hang takes that long


def rank(code: str, **environ: str) -> subprocess.Popen[str]:
    """The program as torchrun starts it."""
    env = {"CURRENT_HOST": "algo-1", "RANK": "3", "DLC_RANK_PYTHON": sys.executable, "PYTHON_EXEC": "x", **environ}
    command = [sys.executable, "-I", "-S", process_spec.program_path("torch_rank"), "-u", "-c", code]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_ranks_lines_have_its_prefix_and_its_exit_code_is_its_own() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.stdout.write('no newline'); sys.exit(5)"
    process = rank(code)
    out, err = process.communicate(timeout=BOUND)
    assert (process.returncode, out, err) == (5, "[algo-1:3] out\n[algo-1:3] no newline\n", "[algo-1:3] err\n")


def test_the_script_sees_nothing_of_the_launchers_variables() -> None:
    shows = "import os; print([name for name in os.environ if 'PYTHON' in name or 'LOG' in name or 'QUIET' in name])"
    out, _ = rank(shows, TORCH_CPP_LOG_LEVEL="ERROR", DLC_RANK_QUIET="0").communicate(timeout=BOUND)
    assert out == "[algo-1:3] []\n"
    own, _ = rank(shows, TORCH_CPP_LOG_LEVEL="INFO").communicate(timeout=BOUND)
    assert own == "[algo-1:3] ['TORCH_CPP_LOG_LEVEL']\n"


def test_a_rank_has_no_child_that_it_did_not_make() -> None:
    out, _ = rank("import os\ntry: os.wait()\nexcept ChildProcessError: print('none')").communicate(timeout=BOUND)
    assert out == "[algo-1:3] none\n"


def test_a_stop_request_reaches_the_script_once_and_its_last_words_come_out() -> None:
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n    print('saving', flush=True); time.sleep(0.2); print('saved'); sys.exit(4)\n"
        "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    process = rank(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "[algo-1:3] ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=BOUND)
    assert (process.returncode, out) == (4, "[algo-1:3] saving\n[algo-1:3] saved\n")


@pytest.mark.parametrize("launcher_hears", [True, False])
def test_below_slurm_a_rank_that_the_signal_has_reached_gets_it_once(tmp_path: Path, *, launcher_hears: bool) -> None:
    """Without the launcher's word, torchrun alone ends the ranks, and the signal is passed on."""
    code = (
        "import os, signal, time\n"
        "def save(*_):\n    signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(3); print('saved', flush=True)\n"
        "    os._exit(4)\nsignal.signal(signal.SIGTERM, save)\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    process = rank(code, SLURM_JOB_ID="7", DLC_RANK_FOLDER=str(tmp_path))
    assert process.stdout is not None
    pid = int(process.stdout.readline().split()[-1])
    if launcher_hears:
        os.kill(pid, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    if launcher_hears:
        RankFolder(str(tmp_path)).mark_stopping()
    out, _ = process.communicate(timeout=BOUND)
    assert out == "[algo-1:3] saved\n"


def test_what_carries_the_output_ends_with_it() -> None:
    process = rank("print(1)")
    process.communicate(timeout=BOUND)  # the pipes are closed: whoever carried has ended or is about to
    end = time.monotonic() + BOUND
    while time.monotonic() < end and _carriers(process.pid):
        time.sleep(0.02)
    assert _carriers(process.pid) == []


TABLE = """
======
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_14:21:25
  host      : localhost
  rank      : 3 (local_rank: 1)
  exitcode  : 7 (pid: 3633)
  error_file: {}
  traceback : {}
======"""


@pytest.mark.parametrize(
    ("kind", "text", "lines"),
    [("ChildFailedError", TABLE.format("<N/A>", "To enable traceback see: a page"), 1),
     ("ChildFailedError", TABLE.format("/tmp/error.json", "ValueError: no data"), len(TABLE.splitlines())),
     ("SignalException", "Process 12 got signal: 15", 1)],
    ids=["rank", "error file", "signal"],
)  # fmt: skip
def test_torchruns_last_words_have_no_traceback_of_its_own(tmp_path: Path, kind: str, text: str, lines: int) -> None:
    """What a user or the report needs of them stays: the first rank, an error that stands nowhere else."""
    (tmp_path / "torchrun").write_text(f"class {kind}(Exception): pass\nraise {kind}({text!r})")
    command = [sys.executable, str(tmp_path / "torchrun")]
    done = subprocess.run(
        command, env={"PYTHONPATH": process_spec.STARTUP_FOLDER}, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, lines), done.stderr
    assert done.stderr.startswith("torchrun: ")
    assert "Traceback" not in done.stderr
    failure = root_cause(Failure("torchrun rank 2 on algo-2 exited with code 1", "torchrun"), done.stderr)
    assert (failure.rank, failure.exit_code) == ((3, 7) if kind == "ChildFailedError" else (-1, 1))
    assert ("ValueError: no data" in done.stderr) == ("ValueError" in text)


def test_an_error_of_torchruns_own_keeps_its_traceback_but_for_one_while_it_logs(tmp_path: Path) -> None:
    """A SIGTERM that comes just then is such an error, of 70 lines."""
    fails = "import logging\nlogging.warning('%d', 'x')\nraise OSError('the port is taken')"
    (tmp_path / "torchrun").write_text(fails)
    command = [sys.executable, str(tmp_path / "torchrun")]
    done = subprocess.run(
        command, env={"PYTHONPATH": process_spec.STARTUP_FOLDER}, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("OSError: the port is taken\n")


def _carriers(session: int) -> list[str]:
    """Processes of the program that are left."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if process_spec.program_path("torch_rank").encode() in words and b"print(1)" in words:
            found.append(f"{path} of {session}")
    return found
