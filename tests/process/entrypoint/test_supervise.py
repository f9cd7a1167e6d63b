"""supervise: exit codes, the first failure, the end of everything else."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from supervised import HANG_BOUND, SAVES, Run, Script, run, start, wait_for, wait_until

FOREVER = "import time; time.sleep(600)"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
DAEMON = """
import os, signal, sys, time
def say(name):
    with open(name + '.tmp', 'w') as f: f.write(str(os.getpid()))
    os.rename(name + '.tmp', name)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        say('daemon')
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists('daemon'): time.sleep(0.01)
"""


def is_gone(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"  # reaped by us or waiting for its adoptive parent; it runs no more


def stop(running: Run, signum: int = signal.SIGTERM) -> Run:
    running.process.send_signal(signum)
    return running.finish()


@pytest.mark.parametrize("code", [0, 1, 3, 42, 255])
def test_the_exit_code_is_the_users_own(tmp_path: Path, code: int) -> None:
    done = run(tmp_path, f"raise SystemExit({code})")
    assert done.exit_code == code
    assert (done.outcome["failure"] is None) == (code == 0)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_is_128_plus_its_number_and_is_named(tmp_path: Path, signum: signal.Signals) -> None:
    done = run(tmp_path, f"import os; os.kill(os.getpid(), {int(signum)})")
    assert done.exit_code == 128 + signum
    assert done.failure["signal"] == signum.name
    assert signum.name in done.failure["cause"]


def test_a_missing_program_is_127_and_named(tmp_path: Path) -> None:
    done = run(tmp_path, Script("", argv=("/no/such/program",)))
    assert done.exit_code == 127
    assert "/no/such/program" in done.failure["cause"]


def test_a_file_that_is_not_executable_is_126(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    done = run(tmp_path, Script("", argv=(str(tmp_path / "data"),)))
    assert done.exit_code == 126
    assert "Permission denied" in done.failure["cause"]


def test_a_program_is_found_on_the_path_of_its_own_environment(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 12\n")
    tool.chmod(0o755)
    script = Script("", argv=("tool",), path=f"/nowhere:{tool.parent}")
    assert run(tmp_path, script).exit_code == 12
    assert run(tmp_path, Script("", argv=("tool",))).exit_code == 127


def test_a_missing_working_directory_is_127_and_named(tmp_path: Path) -> None:
    done = run(tmp_path, "pass", before="specs[0] = specs[0]._replace(cwd='/no/such/folder')")
    assert done.exit_code == 127
    assert "/no/such/folder" in done.failure["cause"]


def test_a_process_has_its_folder_a_session_of_its_own_and_no_input(tmp_path: Path) -> None:
    source = "import os, sys; print(os.getcwd(), os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"
    assert run(tmp_path, source).stdout.decode() == f"{tmp_path.resolve()} True ''\n"


def test_signals_that_python_ignores_are_ordinary_again_in_a_process(tmp_path: Path) -> None:
    done = run(tmp_path, Script("", argv=("grep", "SigIgn", "/proc/self/status")))
    ignored = int(done.stdout.split()[1], 16)
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not ignored >> (signum - 1) & 1


def test_processes_already_started_are_ended_when_a_later_one_cannot_start(tmp_path: Path) -> None:
    done = run(tmp_path, Script(FOREVER, rank=0), Script("", rank=1, argv=("/no/such/program",)))
    assert done.exit_code == 127
    assert done.failure["rank"] == 1


def test_the_first_failure_by_time_wins_with_its_last_lines(tmp_path: Path) -> None:
    first = "import sys; print('the real reason', file=sys.stderr); raise SystemExit(7)"
    other = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit('a consequence'))\ntime.sleep(600)"
    )
    done = run(tmp_path, Script(other, rank=0), Script(first, rank=1), Script(other, rank=2))
    assert done.exit_code == 7
    assert done.failure["rank"] == 1
    assert done.failure["last_lines"] == ["the real reason"]
    assert b"the real reason" in done.stderr.split(b"-" * 78)[1]


def test_last_lines_come_from_stdout_where_stderr_is_silent(tmp_path: Path) -> None:
    done = run(tmp_path, "print('said on stdout'); raise SystemExit(1)")
    assert done.failure["last_lines"] == ["said on stdout"]


def test_all_exit_well_only_when_all_exited_well(tmp_path: Path) -> None:
    slow_failure = "import time; time.sleep(0.3); raise SystemExit(5)"
    done = run(tmp_path, Script("pass", rank=0), Script(slow_failure, rank=1))
    assert done.exit_code == 5


def test_an_unessential_process_ends_with_the_essential_ones(tmp_path: Path) -> None:
    done = run(tmp_path, Script("pass", rank=0), Script(FOREVER, rank=1, role="ps", essential=False))
    assert done.exit_code == 0


@pytest.mark.parametrize(("code", "expected"), [(9, 9), (0, 69)])
def test_the_end_of_a_vital_process_before_the_essential_ones_is_a_failure(
    tmp_path: Path, code: int, expected: int
) -> None:
    side = Script(f"raise SystemExit({code})", role="ray head", essential=False, vital=True)
    done = run(tmp_path, Script(FOREVER), side)
    assert done.exit_code == expected
    assert f"ray head rank 0 on algo-1 exited with code {code}" in done.failure["cause"]


def test_a_vital_process_ends_with_the_essential_ones_and_that_is_no_failure(tmp_path: Path) -> None:
    side = Script(FOREVER, role="ray head", essential=False, vital=True)
    assert run(tmp_path, Script(""), side).exit_code == 0


def test_the_end_of_an_unessential_process_is_no_failure(tmp_path: Path) -> None:
    worker = """
import os, pathlib, time
while not os.path.exists('side'): time.sleep(0.01)
while os.path.exists('/proc/' + pathlib.Path('side').read_text()): time.sleep(0.01)
"""
    side = "import os; open('new', 'w').write(str(os.getpid())); os.rename('new', 'side'); raise SystemExit(9)"
    done = run(tmp_path, Script(worker, rank=0), Script(side, rank=1, role="ps", essential=False))
    assert done.exit_code == 0
    assert b"dlc: ps rank 1 exited with code 9; the job goes on without it" in done.stderr


def test_a_failure_names_the_rank_that_had_left_with_0_before_it(tmp_path: Path) -> None:
    leaves = "import os; os._exit(0)"
    fails = """
import os, sys, time
while not os.path.exists('left'): time.sleep(0.01)
sys.exit(1)
"""
    running = start(tmp_path, Script(fails, rank=0), Script(leaves, rank=1), log_folder=str(tmp_path / "logs"))
    wait_until(lambda: any('"end"' in path.read_text() for path in (tmp_path / "logs").glob("*events.jsonl")))
    (tmp_path / "left").touch()
    done = running.finish()
    assert done.failure["cause"].endswith("exited with code 1; before that worker rank 1 had ended with code 0")


def test_a_process_that_is_started_has_the_containers_limit_of_open_files_whatever_the_launcher_needs(
    tmp_path: Path,
) -> None:
    source = "import resource; open('limit', 'w').write(str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))"
    raises = (
        "from launch.supervision.child_process import raise_open_files; open('own', 'w').write(str(raise_open_files()))"
    )
    below = ("sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh")
    assert run(tmp_path, source, before=f"os.chdir({str(tmp_path)!r}); {raises}", below=below).exit_code == 0
    assert (tmp_path / "limit").read_text() == "200"
    assert (tmp_path / "own").read_text() != "200"


def test_a_daemon_in_its_own_session_does_not_outlive_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, DAEMON)
    assert done.exit_code == 0
    assert is_gone((tmp_path / "daemon").read_text())


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    done = run(tmp_path, IGNORES_SIGTERM + DAEMON, end_grace=0.2)
    assert done.exit_code == 0
    assert is_gone((tmp_path / "daemon").read_text())
    assert b"killed, still running after the grace" in done.stderr


def test_sigterm_reaches_a_daemon_in_its_own_session(tmp_path: Path) -> None:
    tells = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (say('told'), os._exit(0)))\n"
    source = DAEMON.replace("say('daemon')\n", "exec(tells); say('daemon')\n").replace(
        "import os", f"tells = {tells!r}\nimport os"
    )
    running = start(tmp_path, source + "time.sleep(600)")
    daemon = wait_for(tmp_path / "daemon")
    done = stop(running)
    assert (tmp_path / "told").read_text() == daemon
    assert done.exit_code == 128 + signal.SIGTERM


def test_a_process_that_saves_and_exits_0_on_sigterm_makes_the_run_0(tmp_path: Path) -> None:
    running = start(tmp_path, SAVES)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert (tmp_path / "saved").exists()
    assert done.exit_code == 0
    assert done.outcome["failure"] is None


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_is_passed_on_as_it_is(tmp_path: Path, signum: signal.Signals) -> None:
    source = f"""
import pathlib, signal, sys, time
signal.signal({int(signum)}, lambda number, _: sys.exit(20 + number))
pathlib.Path('ready').touch()
time.sleep(600)
"""
    running = start(tmp_path, source)
    wait_for(tmp_path / "ready")
    done = stop(running, signum)
    assert done.exit_code == 20 + signum
    assert done.failure["cause"].startswith(f"stopped by {signum.name}")


def test_a_rank_that_ignores_sigterm_is_killed_and_the_report_says_so(tmp_path: Path) -> None:
    stubborn = IGNORES_SIGTERM + "import pathlib, time; pathlib.Path('ready').touch(); time.sleep(600)"
    running = start(tmp_path, stubborn, stop_grace=0.3)
    wait_for(tmp_path / "ready")
    done = stop(running)
    assert done.exit_code == 128 + signal.SIGKILL
    assert "still running 0.3 s later" in done.failure["cause"]


def test_one_rank_ending_early_does_not_shorten_the_others_grace(tmp_path: Path) -> None:
    quick = "import pathlib, time; pathlib.Path('quick').touch(); time.sleep(600)"
    slow = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(1)
    pathlib.Path('saved').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path('slow').touch()
time.sleep(600)
"""
    running = start(tmp_path, Script(quick, rank=0), Script(slow, rank=1), end_grace=0.1, stop_grace=30.0)
    wait_for(tmp_path / "quick")
    wait_for(tmp_path / "slow")
    done = stop(running)
    assert (tmp_path / "saved").exists()
    assert done.exit_code == 128 + signal.SIGTERM


def test_a_second_interrupt_kills_at_once(tmp_path: Path) -> None:
    source = """
import pathlib, signal, time
signal.signal(signal.SIGINT, lambda *_: pathlib.Path('first').touch())
pathlib.Path('ready').touch()
while True: time.sleep(600)
"""
    running = start(tmp_path, source, stop_grace=600.0)
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGINT)
    wait_for(tmp_path / "first")
    assert stop(running, signal.SIGINT).exit_code == 128 + signal.SIGKILL


def test_sigusr1_reaches_those_that_handle_it_and_harms_nobody_else(tmp_path: Path) -> None:
    agent = """
import subprocess, sys
rank = subprocess.Popen([sys.executable, '-c', sys.argv[1]])
sys.exit(rank.wait())
"""
    rank = """
import pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
pathlib.Path('ready').touch()
time.sleep(600)
"""
    running = start(tmp_path, Script("", argv=(sys.executable, "-c", agent, rank)))
    wait_for(tmp_path / "ready")
    assert stop(running, signal.SIGUSR1).exit_code == 0


@pytest.mark.parametrize("argument", ["nul\0byte", "lone \ud800 surrogate"])
def test_an_argument_no_program_can_be_given_is_a_failure_and_no_traceback(tmp_path: Path, argument: str) -> None:
    done = run(tmp_path, Script("", argv=(sys.executable, argument)))
    assert done.exit_code == 126
    assert "could not be started" in done.failure["cause"]


def test_orphaned_zombies_are_reaped_while_the_job_runs(tmp_path: Path) -> None:
    source = """
import os, pathlib, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
pathlib.Path('made').touch()
while not os.path.exists('counted'): time.sleep(0.01)
"""
    running = start(tmp_path, source)
    wait_for(tmp_path / "made")
    deadline = time.monotonic() + HANG_BOUND
    while zombies_of(running.process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert zombies_of(running.process.pid) == 0
    (tmp_path / "counted").touch()
    assert running.finish().exit_code == 0


def zombies_of(parent: int) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            count += fields[0] == "Z" and int(fields[1]) == parent
    return count


def test_a_stop_signal_before_the_start_starts_nothing(tmp_path: Path) -> None:
    started = "import pathlib; pathlib.Path('started').touch()"
    done = start(tmp_path, started, before="os.kill(os.getpid(), 15)").finish()
    assert done.exit_code == 128 + signal.SIGTERM
    assert not (tmp_path / "started").exists()


def test_a_command_that_forks_faster_than_proc_is_read_is_ended(tmp_path: Path) -> None:
    breeder = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
generations = 0
while generations < 3000:
    if os.fork():
        os._exit(0)
    os.setsid()
    generations += 1
time.sleep(600)
"""
    done = run(tmp_path, breeder, end_grace=0.1)
    assert done.exit_code == 0
