"""core.process: output kept, failures typed, no child left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dlc.core.errors import Interrupted, ProcessError, ProcessTimeoutError
from dlc.core.process import last_lines, run_program, stream_program
from dlc.engine import docker_client


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within `seconds`; a zombie counts as gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_output_and_exit_code_are_kept() -> None:
    done = run_program(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"], check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_failure_names_command_code_and_last_lines() -> None:
    with pytest.raises(ProcessError, match=r"exit code 5\nwhy it failed"):
        run_program(
            [
                sys.executable,
                "-c",
                "import sys; print('why it failed'); sys.exit(5)",
            ]
        )


def test_missing_program_is_a_typed_error_with_a_remedy() -> None:
    with pytest.raises(ProcessError, match="no-such-program: no such program") as caught:
        run_program(["no-such-program"])
    assert "PATH" in caught.value.remedy


def test_program_without_an_end_is_killed_at_its_bound() -> None:
    with pytest.raises(ProcessError, match=r"not finished after 0\.2 s"):
        run_program([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2)


# Starts a process of its own that outlives SIGTERM to its parent alone, and says its number.
FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
open(sys.argv[1], "w").write(str(child.pid))
{then}
"""


@pytest.mark.parametrize("then", ["time.sleep(120)", "sys.exit(0)"], ids=["both run", "only the grandchild runs"])
def test_at_the_bound_children_of_the_program_end_too(then: str, tmp_path: Path) -> None:
    with pytest.raises(ProcessTimeoutError):
        run_program([sys.executable, "-c", FAMILY.format(then=then), str(tmp_path / "pid")], timeout=3)
    assert gone(int((tmp_path / "pid").read_text()))


def test_interrupted_run_ends_the_whole_process_group(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def interrupt() -> None:
        while not (file.exists() and file.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_program([sys.executable, "-c", FAMILY.format(then="time.sleep(120)"), str(file)])
    assert gone(int(file.read_text()))


def test_a_program_has_time_to_clean_up_before_it_is_killed(tmp_path: Path) -> None:
    script = f"trap 'sleep 0.5; touch {tmp_path}/clean; exit' TERM; while :; do sleep 0.05; done"
    with pytest.raises(ProcessTimeoutError):
        run_program(["sh", "-c", script], timeout=0.5)
    assert (tmp_path / "clean").exists()


def test_a_program_that_ignores_sigterm_is_killed() -> None:
    started = time.monotonic()
    with pytest.raises(ProcessTimeoutError):
        run_program(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], timeout=0.3, grace=0.3)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_to_dlc_ends_what_it_runs(number: int, tmp_path: Path) -> None:
    program = (
        "import sys, dlc.cli, dlc.__main__ as m; from dlc.core.process import run_program;"
        "dlc.cli.run = lambda argv: run_program(argv); sys.exit(m.main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", program, sys.executable, "-c", FAMILY.format(then="time.sleep(120)")]
    file = tmp_path / "pid"
    dlc = subprocess.Popen([*argv, str(file)], stderr=subprocess.PIPE, text=True)
    while not (file.exists() and file.read_text()):
        assert dlc.poll() is None
        time.sleep(0.05)
    dlc.send_signal(number)
    assert dlc.communicate(timeout=60)[1] == "dlc: interrupted\n"
    assert dlc.returncode == Interrupted.exit_code
    assert gone(int(file.read_text()))


def test_ctrl_c_while_dlc_still_loads_is_no_traceback() -> None:
    program = (
        "import os, signal, sys; from dlc.__main__ import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job ignores it
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'dlc.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder()); sys.exit(main(['list']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (Interrupted.exit_code, "", "dlc: interrupted\n")


def test_a_closed_terminal_ends_nothing_that_nohup_started() -> None:
    program = (
        "import os, signal, dlc.cli, dlc.__main__ as m;"
        "dlc.cli.run = lambda _: os.kill(os.getpid(), signal.SIGHUP) or 7; print(m.main([]))"
    )
    words = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("7\n", "")


@pytest.mark.parametrize("stdin", [None, "x" * 1_000_000], ids=["nothing to read", "more than a pipe holds"])
def test_a_program_that_reads_nothing_is_no_error(stdin: str | None) -> None:
    assert run_program(["true"], stdin=stdin).returncode == 0
    assert stream_program(["true"], print, stdin=stdin) == 0


def test_output_that_is_no_text_is_kept_as_far_as_it_is() -> None:
    lines: list[str] = []
    argv = ["printf", "a\\377b"]
    assert run_program(argv).stdout == "a\ufffdb"
    assert (stream_program(argv, lines.append), lines) == (0, ["a\ufffdb"])


def test_a_program_that_may_not_be_run_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    with pytest.raises(ProcessError, match="cannot be run: Permission denied"):
        run_program([str(tmp_path / "data")])


def test_environment_is_added_to_the_callers() -> None:
    done = run_program(
        [sys.executable, "-c", "import os; print(os.environ['ADDED'], 'PATH' in os.environ)"], env={"ADDED": "x"}
    )
    assert done.stdout == "x True\n"


def test_stream_hands_over_each_line_and_takes_stdin() -> None:
    lines: list[str] = []
    code = stream_program(
        [sys.executable, "-c", "import sys; print(sys.stdin.read()); print('b'); sys.exit(4)"], lines.append, stdin="a"
    )
    assert (code, lines) == (4, ["a", "b"])


def test_interrupted_stream_ends_the_whole_process_group(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time; sleep = 'import time; time.sleep(120)';"
        "print(subprocess.Popen([sys.executable, '-c', sleep]).pid, flush=True); time.sleep(120)"
    )
    seen: list[int] = []

    def on_line(line: str) -> None:
        seen.append(int(line))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        stream_program([sys.executable, "-c", script], on_line)
    assert gone(seen[0])


def test_tail_keeps_the_end() -> None:
    assert last_lines("1\n2\n3\n", 2) == "2\n3"


def test_a_line_of_one_stream_is_not_torn_by_a_line_of_the_other() -> None:
    program = "import os; os.write(1, b'out '); os.write(2, b'error\\n'); os.write(1, b'put\\n')"
    lines: list[str] = []
    errors: list[str] = []
    assert stream_program([sys.executable, "-c", program], lines.append, on_error=errors.append) == 0
    assert (lines, errors) == (["out put"], ["error"])


def test_what_another_thread_runs_ends_with_dlc(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = """
import sys, threading, time
from pathlib import Path
from dlc.core.process import run_program

argv = [sys.executable, "-c", *sys.argv[1:]]
threading.Thread(target=run_program, args=(argv,), daemon=True).start()
while not (Path(sys.argv[2]).exists() and Path(sys.argv[2]).read_text()):
    time.sleep(0.05)
"""
    argv = [sys.executable, "-c", program, FAMILY.format(then="time.sleep(120)"), str(file)]
    subprocess.run(argv, check=True, timeout=60)
    assert gone(int(file.read_text()))


@pytest.mark.parametrize("ends", [True, False])
def test_a_killed_dlc_takes_its_build_along_and_leaves_its_job(ends: bool, tmp_path: Path) -> None:
    """SIGKILL runs no code of dlc: the kernel tells the child."""
    mark = tmp_path / "pid"
    script = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    code = f"""
import sys
from dlc.core.process import stream_program
stream_program([sys.executable, "-c", {script!r}], print, ends_with_us={ends})
"""
    with subprocess.Popen([sys.executable, "-c", code]) as dlc:
        while not (mark.exists() and mark.read_text()):
            time.sleep(0.05)
        dlc.kill()
    child = int(mark.read_text())
    try:
        assert gone(child, 20.0 if ends else 1.0) == ends
    finally:
        if not ends:
            os.kill(child, signal.SIGKILL)


def test_a_build_is_ended_with_dlc_and_the_client_of_a_job_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def stream(_argv: object, _on_line: object, **options: object) -> int:
        asked.append(options["ends_with_us"])
        return 0

    monkeypatch.setattr(docker_client, "stream_program", stream)
    monkeypatch.setattr(docker_client, "is_present", lambda: True)
    engine = docker_client.Engine(None, "context", "29", containerd_store=True)
    for words in (("buildx", "bake"), ("run", "an-image")):
        engine.docker_lines(*words, on_line=print)
    assert asked == [True, False]


def test_a_variable_can_be_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_OF_THE_CALLER", "x")
    code = "import os; print(os.environ.get('DLC_OF_THE_CALLER'))"
    assert run_program([sys.executable, "-c", code], env={"DLC_OF_THE_CALLER": None}).stdout == "None\n"
