"""Reasons are not lost: in the first 1,024 characters, in whole lines, in stacks on request, in logs by switch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_launcher import launched, runnable_job
from supervised import HANG_BOUND, Script, run, start, wait_for
from test_stops_below_a_starter import RANK, below_a_starter

from harness.job_folder import JobFolder
from launch.base import process_spec
from launch.base.errors import Failure
from launch.supervision import failure_cause, failure_report, hang
from launch.supervision.event_log import ProcessLog

LIBRARY = 'File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl'


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return runnable_job(tmp_path)


def first_characters(job: JobFolder) -> str:
    return (job.base / "output/failure").read_text()[:1024]


def test_an_error_behind_a_long_message_is_in_the_reason_with_its_frame(job: JobFolder) -> None:
    script = "def load_batch():\n    raise ValueError('bad shape ' + '0.1234, ' * 600 + 'expected 3')\nload_batch()\n"
    launched(job.code(text=script)).communicate(timeout=HANG_BOUND)
    said = first_characters(job)
    assert "ValueError: bad shape" in said
    assert "expected 3" in said
    assert 'train.py", line 2, in load_batch' in said


def test_an_error_is_the_reason_and_not_that_of_the_program_that_started_it() -> None:
    head, torchrun = "Traceback (most recent call last):", '  File "/opt/venv/bin/torchrun", line 10, in <module>'
    script = (head, '  File "/opt/ml/code/train.py", line 2, in <module>', "    fit()", "ValueError: no data")
    starter = (
        head,
        torchrun,
        "    sys.exit(main())",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    )
    assert failure_cause.error_lines((*script, *starter))[-1] == "ValueError: no data"
    assert "ChildFailedError" in failure_cause.error_lines(starter)[-1]


def test_an_error_before_a_librarys_last_words_is_in_the_reason(job: JobFolder) -> None:
    script = """
import sys
def step(): raise RuntimeError('no data')
try: step()
except RuntimeError:
    import traceback; traceback.print_exc()
for n in range(200): print(f'I1120 14:21:25.960000 3343 absl.cc:12] shutting down {n}', file=sys.stderr)
sys.exit(1)
"""
    launched(job.code(text=script)).communicate(timeout=HANG_BOUND)
    assert "RuntimeError: no data" in first_characters(job)
    assert "in step" in first_characters(job)


def test_the_users_frame_is_told_not_the_librarys() -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 7, in main',
        "    model(x)",
        "    ~~~~~^^^",
        f"  {LIBRARY}",
        "    return forward_call(*args)",
        "           ^^^^^^^^^^^^^^^^^^^",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "more of the message",
    )
    assert failure_cause.error_lines(lines) == (
        '  File "/opt/ml/code/train.py", line 7, in main',
        "    model(x)",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    )


def test_the_last_of_several_tracebacks_counts() -> None:
    lines = ("Traceback (most recent call last):", '  File "a.py", line 1, in a', "KeyError: 1", "During handling ...:")
    lines += ("Traceback (most recent call last):", '  File "b.py", line 2, in b', "OSError: 2")
    assert failure_cause.error_lines(lines) == ('  File "b.py", line 2, in b', "OSError: 2")
    assert failure_cause.error_lines(("no traceback", "at all")) == ()


def test_marks_and_chatter_are_dropped_before_anything_else() -> None:
    lines = tuple("    ^^^^^^^" if n % 2 else f"line {n}" for n in range(400))
    text = failure_report.as_file_text(Failure("it failed", last_lines=lines))
    assert "^^^" not in text[:1024]
    assert "line 398" in text[:1024]


def test_with_32_noisy_ranks_the_reason_of_the_first_failure_is_told(tmp_path: Path) -> None:
    noisy = RANK.format(seconds=0, code=0, handler="").replace(
        "time.sleep(600)", "while True: print('noise ' * 100, file=sys.stderr); time.sleep(0.01)"
    )
    fails = RANK.format(seconds=0, code=0, handler="").replace(
        "time.sleep(600)",
        "while len(list(pathlib.Path().glob('ready-*'))) < 32: time.sleep(0.05)\ntime.sleep(0.5)\n"
        "raise ValueError('the real reason')",
    )
    running = below_a_starter(tmp_path, *[noisy] * 3, fails, *[noisy] * 28)
    done = running.finish()
    told = Failure(**{**done.failure, "last_lines": tuple(done.failure["last_lines"]), "error": ()})
    assert "ValueError: the real reason" in failure_report.as_file_text(told)[:1024]
    assert done.failure["rank"] == 3


def test_ranks_that_share_a_pipe_mix_no_lines(tmp_path: Path) -> None:
    lines = """
import os, sys
rank = os.environ['RANK']
open('ready-' + rank, 'w')
for n in range(1500): os.write(1, f'{rank} {n} {rank * (4 * n)}\\n'.encode())
"""
    done = below_a_starter(tmp_path, *[lines] * 4).finish()
    assert done.exit_code == 0
    seen = [0, 0, 0, 0]
    for line in done.stdout.decode().splitlines():
        match = re.fullmatch(r"\[algo-1:(\d)\] (\d) (\d+) (\1*)", line)
        assert match, line[:200]
        assert match[1] == match[2]
        assert len(match[4]) == 4 * int(match[3])
        seen[int(match[1])] += 1
    assert seen == [1500] * 4


def test_what_an_earlier_run_left_is_gone(job: JobFolder) -> None:
    (job.base / "output").mkdir()
    (job.base / "output/failure").write_text("of an earlier run")
    launched(job.code(text="")).communicate(timeout=HANG_BOUND)
    assert sorted(path.name for path in (job.base / "output").iterdir()) == ["data", "success"]
    launched(job.code(text="raise SystemExit(3)")).communicate(timeout=HANG_BOUND)
    assert sorted(path.name for path in (job.base / "output").iterdir()) == ["data", "failure"]
    assert "exited with code 3" in first_characters(job)


def small_disk(folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], capture_output=True)
    return done.returncode == 0


@pytest.mark.parametrize("full", ["output", "checkpoints"])
def test_a_full_disk_is_said_on_stderr_and_in_the_failure_file(job: JobFolder, full: str) -> None:
    folder = job.base / full
    if not small_disk(folder):
        pytest.skip("mounting a small file system needs root")
    try:
        script = (
            f"open('{folder}/fill', 'wb', 0).write(b'x' * 1000000); open('{folder}/fill', 'ab', 0).write(b'x' * 9000)"
        )
        process = launched(job.code(text=f"try:\n  {script}\nexcept OSError: pass\nraise SystemExit(0)"))
        _, stderr = process.communicate(timeout=HANG_BOUND)
        assert process.returncode == 74
        assert f"no space left on {folder}" in stderr
        assert f"no space left on {folder}" in first_characters(job)
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-", "2>&1 | true"])
def test_a_stderr_that_cannot_be_written_changes_nothing(job: JobFolder, how: str) -> None:
    job.code(text="import time; time.sleep(0.2); open('trained', 'w'); raise SystemExit(5)")
    script = f"{sys.executable} -I -S src/entrypoint/launcher.py train {how}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], env=job.environ, timeout=HANG_BOUND, check=False)
    assert done.returncode == 5
    assert (job.base / "code/trained").exists()
    assert "exited with code 5" in first_characters(job)


def test_sigusr1_prints_the_stacks_of_all_and_ends_nothing(tmp_path: Path) -> None:
    source = """
import os, pathlib, time
def waits_for_a_gradient():
    pathlib.Path('ready').touch()
    while not os.path.exists('go'): time.sleep(0.05)
waits_for_a_gradient()
"""
    argv = (sys.executable, "-c", source)
    path = process_spec.STARTUP_FOLDER
    before = f"specs = [spec._replace(env=dict(spec.env, PYTHONPATH={path!r})) for spec in specs]"
    running = start(tmp_path, Script("", argv=argv), before=before)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGUSR1)
    assert running.process.stderr
    while b"in waits_for_a_gradient" not in (line := running.process.stderr.readline()):
        assert line, "it ended without the stacks"
    (tmp_path / "go").touch()
    assert running.finish().exit_code == 0


def test_a_users_own_handler_for_sigusr1_wins(tmp_path: Path) -> None:
    source = """
import pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
pathlib.Path('ready').touch()
time.sleep(600)
"""
    path = process_spec.STARTUP_FOLDER
    before = f"specs = [spec._replace(env=dict(spec.env, PYTHONPATH={path!r})) for spec in specs]"
    running = start(tmp_path, Script("", argv=(sys.executable, "-c", source)), before=before)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGUSR1)
    done = running.finish()
    assert done.exit_code == 7
    assert b"most recent call first" not in done.stderr


def test_the_users_own_sitecustomize_is_loaded_and_ours_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("loaded = True")
    ours = process_spec.STARTUP_FOLDER
    path = f"{ours}:{tmp_path}"
    code = f"import sys, sitecustomize; print(sitecustomize.loaded, {ours!r} in sys.path)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


def test_the_flight_recorder_is_asked_through_its_pipes(tmp_path: Path) -> None:
    variables = {
        hang.PIPE_VARIABLE: str(tmp_path / "pipe_"),
        hang.FILE_VARIABLE: str(tmp_path / "trace_"),
    }
    os.mkfifo(tmp_path / "pipe_0.pipe")
    os.mkfifo(tmp_path / "pipe_1.pipe")  # its rank is gone: nobody reads
    code = f"open('{tmp_path}/up', 'w'); open('{tmp_path}/pipe_0.pipe').read(1); open('{tmp_path}/trace_0', 'w')"
    rank = subprocess.Popen([sys.executable, "-c", code])
    wait_for(tmp_path / "up")
    with open(tmp_path / "pipe_0.pipe", "wb", 0):  # waits until the rank has opened its end
        assert hang.dump_flight_recorder(variables) == [str(tmp_path / "trace_0")]
    rank.wait(HANG_BOUND)
    assert hang.dump_flight_recorder({}) == []


def test_logs_and_events_by_switch(job: JobFolder) -> None:
    job.env(DLC_LOGS="1").code(text="print('out'); raise SystemExit(3)")
    launched(job).communicate(timeout=HANG_BOUND)
    folder = job.base / "output/data/launcher"
    assert (folder / "algo-1-worker-0.log").read_text() == "out\n"
    events = [json.loads(line) for line in (folder / "algo-1-events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["ready", "start", "end", "failure"]
    assert events[1]["pid"] > 0
    assert events[2]["exit_code"] == 3


def test_without_the_switch_there_are_none(job: JobFolder) -> None:
    launched(job.code(text="print('out')")).communicate(timeout=HANG_BOUND)
    assert list((job.base / "output/data").iterdir()) == []


def test_a_log_keeps_its_beginning_and_its_end_and_is_bounded(tmp_path: Path) -> None:
    log = ProcessLog(str(tmp_path / "log"), largest=2000)
    for number in range(1000):
        log.write(b"%09d\n" % number)
    log.close()
    assert (tmp_path / "log").read_text().startswith("000000000\n")
    assert (tmp_path / "log.last").read_text().endswith("000000999\n")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000


def test_of_a_fast_progress_bar_one_state_a_second_is_shown(tmp_path: Path) -> None:
    bar = "import sys, time\nfor n in range(200): sys.stderr.write(f'\\r{n}%'); sys.stderr.flush(); time.sleep(0.002)"
    done = run(tmp_path, Script(bar), Script("pass", rank=1))
    lines = done.stderr.decode().splitlines()
    assert len(lines) < 20
    assert lines[-1] == "[algo-1:0] 199%"
