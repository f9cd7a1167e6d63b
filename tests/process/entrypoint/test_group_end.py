"""group_end: every host learns how the group ended, from whatever happened to whichever host."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from hosts import LEADER, Job
from supervised import HANG_BOUND, is_armed, wait_until
from test_stops_below_a_starter import STARTER

from dlc_channel.keys import job_key
from harness.ports import free_port
from launch import signals
from launch.base import process_spec
from launch.base.errors import UNAVAILABLE, LaunchError
from launch.coordination import rendezvous
from launch.coordination.member import Member
from launch.coordination.membership import GroupRules, MemberConfig

LEAVES_SOON = {"launch.coordination.member.DIAL_SECONDS": 1.0}  # where there is nobody to be told anything
UNTIL_GO = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
FOREVER = "import os, pathlib, time; pathlib.Path(f'running-{os.getpid()}').touch(); time.sleep(600)"
HOSTS = (LEADER, "algo-2", "algo-3")
AHEAD = {"algo-2": 86400.0, "algo-3": -86400.0}  # seconds; clocks of hosts that nobody has set


def wait_until_running(folder: Path, count: int) -> list[int]:
    """Wait for so many FOREVER scripts; their pids."""
    deadline = time.monotonic() + HANG_BOUND
    while len(found := list(folder.glob("running-*"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [int(path.name.removeprefix("running-")) for path in found]


def test_a_group_ends_well_when_all_members_did(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS) as job:
        sources = {host: f"import time; time.sleep({0.2 * n})" for n, host in enumerate(HOSTS)}
        hosts = [job.start(host, source, ahead=AHEAD.get(host, 0.0)) for host, source in sources.items()]
        assert [host.finish().exit_code for host in hosts] == [0, 0, 0]


def test_a_host_outside_the_group_is_ended_when_the_group_ended_well(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, members=HOSTS[:2]) as job:
        data = job.start(HOSTS[2], FOREVER)
        members = [job.start(host, "pass") for host in HOSTS[:2]]
        assert [host.finish().exit_code for host in members] == [0, 0]
        assert data.finish().exit_code == 0
        assert data.outcome["failure"] is None


def test_a_rank_that_leaves_with_0_is_named_where_it_makes_another_host_fail(tmp_path: Path) -> None:
    """Its own starter waits, as torchrun does: for other ranks of its host, or for other hosts."""
    (tmp_path / "torchrun").write_text(STARTER)
    folder = tmp_path / "ranks"
    leaves = f"import os\nwhile not os.path.exists({str(tmp_path / 'leave')!r}): pass\nos._exit(0)"
    ranks = [sys.executable, str(tmp_path / "torchrun"), process_spec.program_path("torch_rank"), UNTIL_GO, leaves]
    env = {
        "CURRENT_HOST": HOSTS[1], "PYTHON_EXEC": "x", "DLC_RANK_PYTHON": sys.executable, "DLC_RANK_FOLDER": str(folder),
    }  # fmt: skip
    starter = f"import os\nos.execve({sys.executable!r}, {ranks!r}, {{**os.environ, **{env!r}}})"
    loses = "import os, sys, time\nwhile not os.path.exists('fail'): time.sleep(0.01)\nsys.exit('broken pipe')"
    with Job(tmp_path, HOSTS[:2]) as job:
        hosts = [job.start(HOSTS[0], loses), job.start(HOSTS[1], starter, rank_folder=str(folder))]
        wait_until(lambda: (folder / "1.json").exists())
        (tmp_path / "leave").touch()
        wait_until(lambda: not (folder / "launcher").exists())
        time.sleep(0.2)  # torchrun takes longer to end after one of its ranks
        (tmp_path / "fail").touch()
        causes = [host.finish().cause for host in hosts]
    assert all(cause.endswith("code 1; before that worker rank 1 on algo-2 had ended with code 0") for cause in causes)


def test_a_host_outside_the_group_may_end_early(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, members=HOSTS[:2]) as job:
        hosts = [job.start(host, UNTIL_GO) for host in HOSTS[:2]]
        assert job.start(HOSTS[2], "pass").finish().exit_code == 0
        assert all(host.process.poll() is None for host in hosts)
        (tmp_path / "go").touch()
        assert [host.finish().exit_code for host in hosts] == [0, 0]


@pytest.mark.parametrize("failing", HOSTS)
def test_one_hosts_failure_ends_all_and_is_named_on_all(tmp_path: Path, failing: str) -> None:
    """Whatever their clocks say."""
    with Job(tmp_path, HOSTS) as job:
        source = "import sys, time; time.sleep(0.3); print('why', file=sys.stderr); sys.exit(7)"
        sources = {host: source if host == failing else FOREVER for host in HOSTS}
        hosts = {host: job.start(host, sources[host], ahead=AHEAD.get(host, 0.0)) for host in HOSTS}
        for name, host in hosts.items():
            host.finish()
            assert host.exit_code == 7
            assert f"on {failing} exited with code 7" in host.cause
            assert host.cause.startswith("the job failed on") == (name != failing)
            assert host.outcome["failure"]["last_lines"] == ["why"]


def test_a_failure_outside_the_group_ends_all(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, members=HOSTS[:2]) as job:
        members = [job.start(host, FOREVER) for host in HOSTS[:2]]
        assert job.start(HOSTS[2], "raise SystemExit(4)").finish().exit_code == 4
        assert [host.finish().exit_code for host in members] == [4, 4]


@pytest.mark.parametrize("victim", HOSTS)
def test_a_launcher_killed_with_sigkill_is_noticed_by_all(tmp_path: Path, victim: str) -> None:
    with Job(tmp_path, HOSTS, heartbeat=2.0) as job:
        hosts = {host: job.start(host, FOREVER) for host in HOSTS}
        scripts = wait_until_running(tmp_path, 3)
        killed = hosts.pop(victim)
        killed.process.kill()
        for host in hosts.values():
            assert host.finish().exit_code == UNAVAILABLE
            assert f"{victim}" in host.cause
            assert "vanished" in host.cause
        for pid in scripts:  # the killed launcher's own script: a container would end with its PID 1
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", HOSTS[:2])
def test_a_host_that_falls_silent_without_closing_is_noticed_by_heartbeat(tmp_path: Path, victim: str) -> None:
    with Job(tmp_path, HOSTS, heartbeat=2.0) as job:
        hosts = {host: job.start(host, FOREVER) for host in HOSTS}
        wait_until_running(tmp_path, 3)
        silent = hosts.pop(victim)
        silent.process.send_signal(signal.SIGSTOP)
        for host in hosts.values():
            assert host.finish().exit_code == UNAVAILABLE
            assert victim in host.cause
            assert "nothing heard for 2 s" in host.cause
        silent.process.send_signal(signal.SIGCONT)
        assert silent.finish().exit_code == UNAVAILABLE  # it lost the others, and ends as well


def test_a_pause_of_the_whole_job_is_no_failure(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, heartbeat=1.0) as job:
        source = f"open('running-{{}}', 'w')\n{UNTIL_GO}"
        hosts = [job.start(host, source.format(number)) for number, host in enumerate(HOSTS)]
        wait_until_running(tmp_path, 3)
        for host in hosts:
            host.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # longer than the heartbeat
        for host in hosts:
            host.process.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        assert [host.finish().exit_code for host in hosts] == [0, 0, 0]


def test_the_others_get_the_long_grace_when_one_host_is_stopped(tmp_path: Path) -> None:
    saves = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.5)
    pathlib.Path('saved').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path(f'running-{os.getpid()}').touch()
time.sleep(600)
"""
    with Job(tmp_path, HOSTS[:2]) as job:
        saving = job.start(HOSTS[0], saves, end_grace=0.1)
        stopped = job.start(HOSTS[1], FOREVER)
        wait_until_running(tmp_path, 2)
        stopped.process.terminate()
        assert stopped.finish().exit_code == 128 + signal.SIGTERM
        assert saving.finish().exit_code == 0
        assert saving.outcome["stopped"]
        assert (tmp_path / "saved").exists()


def test_a_host_that_serves_stays_until_the_group_ends(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS[:2], members=HOSTS[:1]) as job:
        serving = job.start(HOSTS[1], FOREVER, essential=False)
        (pid,) = wait_until_running(tmp_path, 0) or wait_for_one(tmp_path, job)
        assert serving.process.poll() is None
        (tmp_path / "go").touch()
        assert serving.finish().exit_code == 0
        assert not Path(f"/proc/{pid}").exists()


def test_what_a_host_that_serves_had_started_was_not_left_behind_when_the_group_ends(tmp_path: Path) -> None:
    """Its script is ended at once, the program below it takes a moment: it was not the script that left it."""
    slow = "import os, pathlib, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), os._exit(0)))\n"
    (tmp_path / "slow.py").write_text(f"{slow}pathlib.Path(f'running-{{os.getpid()}}').touch()\ntime.sleep(600)")
    with Job(tmp_path, HOSTS[:2], members=HOSTS[:1]) as job:
        source = "import subprocess, sys; subprocess.call([sys.executable, 'slow.py'])"
        serving = job.start(HOSTS[1], source, essential=False)
        wait_for_one(tmp_path, job)
        (tmp_path / "go").touch()
        assert serving.finish().exit_code == 0
        assert "left this running" not in serving.stderr


@pytest.mark.parametrize(("code", "expected"), [(5, 5), (0, UNAVAILABLE)])
def test_a_server_that_ends_before_the_group_fails_the_job(tmp_path: Path, code: int, expected: int) -> None:
    with Job(tmp_path, HOSTS[:2], members=HOSTS[:1]) as job:
        leader = job.start(HOSTS[0], FOREVER)
        serving = job.start(HOSTS[1], f"import sys, time; time.sleep(0.3); sys.exit({code})", essential=False)
        for host in (leader, serving):
            assert host.finish().exit_code == expected
            assert f"worker rank 1 on algo-2 exited with code {code}" in host.cause


def wait_for_one(folder: Path, job: Job) -> list[int]:
    job.start(LEADER, "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    return wait_until_running(folder, 1)


def test_hosts_that_do_not_come_are_named_on_those_that_did(tmp_path: Path) -> None:
    with Job(tmp_path, (*HOSTS, "algo-4"), timeout=1.0) as job:
        hosts = [job.start(host, "pass") for host in HOSTS[:2]]
        for host in hosts:
            host.finish()
            assert host.exit_code == UNAVAILABLE
            assert "algo-3, algo-4 did not join the job within 1 s" in host.cause


def test_a_leader_that_does_not_come_is_named(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, timeout=0.5, constants=LEAVES_SOON) as job:
        host = job.start(HOSTS[1], "pass").finish()
        assert host.exit_code == UNAVAILABLE
        assert f"{LEADER} could not be reached on port {job.join['port']}" in host.cause
        assert "Connection refused" in host.cause


def test_a_stop_signal_while_joining_is_told_to_the_others(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, timeout=HANG_BOUND) as job:
        waiting, stopped = job.start(HOSTS[0], "pass"), job.start(HOSTS[1], "pass")
        wait_until(lambda: is_armed(stopped.process))
        stopped.process.terminate()
        assert stopped.finish().exit_code == 128 + signal.SIGTERM
        assert waiting.finish().exit_code == 128 + signal.SIGTERM
        assert waiting.cause == "stopped: algo-2 was asked to stop"


def test_strangers_end_nothing(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS[:2]) as job:
        source = f"open('running-{{}}', 'w')\n{UNTIL_GO}"
        hosts = [job.start(host, source.format(number)) for number, host in enumerate(HOSTS[:2])]
        wait_until_running(tmp_path, 2)
        for sent in (b"", b"GET / HTTP/1.0\r\n\r\n", b"dlc/2 group 00\n0 {}\n", os.urandom(5000), b'{"kind": "end"}\n'):
            with socket.create_connection((LEADER, job.join["port"]), 10) as stray:
                stray.sendall(sent)
        other_job = Job(tmp_path, HOSTS[:2], port=job.join["port"], timeout=0.5, constants=LEAVES_SOON)
        with other_job:
            refused = other_job.start(HOSTS[1], "pass", environ={"DLC_JOB_TOKEN": "of another job"}).finish()
        assert refused.exit_code == UNAVAILABLE
        (tmp_path / "go").touch()
        assert [host.finish().exit_code for host in hosts] == [0, 0]
        assert "refused a connection" in hosts[0].stderr


def test_a_taken_port_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken, Job(tmp_path, HOSTS, port=taken.getsockname()[1]) as job:
        host = job.start(LEADER, "pass").finish()
        assert host.exit_code == UNAVAILABLE
        assert "DLC_GROUP_PORT" in host.cause


def test_64_hosts_join_and_learn_the_end_together(tmp_path: Path) -> None:
    names = (LEADER, *(f"algo-{number}" for number in range(2, 65)))
    port = free_port()
    groups: list[Member] = []

    def member(host: str) -> None:
        place = MemberConfig(host, GroupRules(names, names), job_key({}, names), port, HANG_BOUND)
        groups.append(rendezvous.join(place, {"n": 1}, HANG_BOUND))

    signals.arm()
    threads = [threading.Thread(target=member, args=(host,)) for host in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(groups) == 64
    assert all(len(group.facts) == 64 for group in groups)
    for group in groups:
        group.report(None)
    deadline = time.monotonic() + HANG_BOUND
    while not all(group.end for group in groups) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(group.end and group.end.ok for group in groups)
    for group in groups:
        group.close()


def test_joining_under_a_name_that_is_none_of_the_jobs_is_refused(tmp_path: Path) -> None:
    signals.arm()
    place = MemberConfig(LEADER, GroupRules(("algo-8", "algo-9"), (LEADER,)), b"key", free_port(), HANG_BOUND)
    with pytest.raises(LaunchError, match="none of this job's hosts"):
        rendezvous.join(place, {}, HANG_BOUND)
