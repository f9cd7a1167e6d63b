"""After a stop the stop is the reason, also where a rank fails because its peers were ended; real errors are told."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from hosts import LEADER, Host, Job
from relay import Relay
from supervised import Script, run, start, wait_for
from test_stops_below_a_starter import STARTER

from launch.base import process_spec
from launch.base.errors import Failure
from launch.coordination.membership import GroupRules, Membership
from launch.supervision.rank_files import RankEnd
from launch.supervision.settings import Settings
from launch.supervision.stop_attribution import StopAttribution, look_at_ranks, was_ended_by_stop
from launch.supervision.supervisor import Supervisor

HOSTS = (LEADER, "algo-2")
STOPPED, KILLED = 128 + signal.SIGTERM, 128 + signal.SIGKILL
PATIENCE = 60.0  # seconds
PEER = """
import os, pathlib, signal, time
{handler}
with open('pid.part', 'w') as file: file.write(str(os.getpid()))
os.rename('pid.part', 'pid')
while True: time.sleep(600)
"""
ENDED_AT_ONCE = PEER.format(handler="")
IGNORES = PEER.format(handler="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
# As a rank in a collective whose other end goes away.
LOSES_ITS_PEER = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while not os.path.exists('pid'): time.sleep(0.01)
peer = '/proc/' + pathlib.Path('pid').read_text()
pathlib.Path('ready').touch()
while os.path.exists(peer): time.sleep(0.01)
raise ConnectionResetError('Connection closed by peer')
"""
CANNOT_SAVE = """
import pathlib, signal, time
def save(*_): raise OSError('Input/output error')
signal.signal(signal.SIGTERM, save)
while not pathlib.Path('pid').exists(): time.sleep(0.01)
pathlib.Path('ready').touch()
time.sleep(600)
"""
WHEN_TOLD = """
import os, time
def saved_when_told():
    while not os.path.exists('go'): time.sleep(0.01)
    os._exit(0)
"""
SAVES = PEER.format(handler="signal.signal(signal.SIGTERM, lambda *_: os._exit(0))")


def stop(folder: Path, job: Job, scripts: tuple[str, str], stopped: int, **settings: float) -> list[Host]:
    """Both hosts after a stop of one of them; the settings are the second one's."""
    hosts = [job.start(HOSTS[0], scripts[0]), job.start(HOSTS[1], scripts[1], **settings)]
    wait_for(folder / "ready")
    hosts[stopped].process.terminate()
    return [host.finish() for host in hosts]


@pytest.mark.parametrize("stopped", [0, 1], ids=["the leader is stopped", "the other is stopped"])
@pytest.mark.parametrize("bereft", [0, 1])
def test_a_rank_that_loses_a_peer_to_the_stop_ends_with_the_stops_code(
    tmp_path: Path, stopped: int, bereft: int
) -> None:
    scripts = (LOSES_ITS_PEER, ENDED_AT_ONCE) if bereft == 0 else (ENDED_AT_ONCE, LOSES_ITS_PEER)
    with Job(tmp_path, HOSTS) as job:
        hosts = stop(tmp_path, job, scripts, stopped)
    assert [host.exit_code for host in hosts] == [STOPPED, STOPPED], [host.stderr for host in hosts]
    failure = hosts[bereft].outcome["failure"]
    assert failure["cause"].startswith("stopped")
    assert f"on {HOSTS[1 - bereft]} was ended by SIGTERM; then worker rank {bereft} on" in failure["cause"]
    assert failure["last_lines"][-1] == "ConnectionResetError: Connection closed by peer"


def test_a_rank_that_loses_a_peer_killed_after_its_grace_ends_with_the_stops_code(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS) as job:
        first, second = stop(tmp_path, job, (LOSES_ITS_PEER, IGNORES), 0, stop_grace=0.5)
    assert (first.exit_code, second.exit_code) == (STOPPED, KILLED), (first.stderr, second.stderr)
    assert "what was still running on algo-2 was killed; then worker rank 0" in first.cause


def test_a_rank_that_the_stop_ended_is_told_while_its_starter_waits_for_others_that_save(tmp_path: Path) -> None:
    saves_long = SAVES.replace("os._exit(0)", "saved_when_told()").replace("'pid", "'other")
    saves_long = f"{WHEN_TOLD}{saves_long}"
    (tmp_path / "mpirun").write_text(STARTER)
    env = {
        "CURRENT_HOST": HOSTS[0], "PYTHON_EXEC": "x", "DLC_RANK_PYTHON": sys.executable,
        "DLC_RANK_FOLDER": str(tmp_path / "ranks"),
    }  # fmt: skip
    command = [
        sys.executable,
        str(tmp_path / "mpirun"),
        process_spec.program_path("torch_rank"),
        ENDED_AT_ONCE,
        saves_long,
    ]
    starter = f"import os\nos.execve({sys.executable!r}, {command!r}, {{**os.environ, **{env!r}}})"
    with Job(tmp_path, HOSTS) as job:
        hosts = [job.start(HOSTS[0], starter, rank_folder=env["DLC_RANK_FOLDER"]), job.start(HOSTS[1], LOSES_ITS_PEER)]
        for name in ("ready", "other"):
            wait_for(tmp_path / name)
        hosts[1].process.terminate()
        bereft = hosts[1].finish()
        assert hosts[0].process.poll() is None
        (tmp_path / "go").touch()
        assert (bereft.exit_code, hosts[0].finish().exit_code) == (STOPPED, STOPPED), (bereft.stderr, hosts[0].stderr)
    assert f"worker rank 0 on {LEADER} was ended; then worker rank 1 on algo-2" in bereft.cause


def test_a_rank_that_fails_before_its_host_hears_of_the_stop_only_follows_from_it_too(tmp_path: Path) -> None:
    tells = LOSES_ITS_PEER.replace("raise", "pathlib.Path('failed').touch()\nraise")
    with Job(tmp_path, HOSTS, heartbeat=20.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], ENDED_AT_ONCE)
        other = job.start(HOSTS[1], tells, join={"port": relay.port})
        wait_for(tmp_path / "ready")
        relay.is_closed = True
        relay.reset()
        leader.process.terminate()
        wait_for(tmp_path / "failed")
        relay.is_closed = False
        assert [leader.finish().exit_code, other.finish().exit_code] == [STOPPED, STOPPED], other.stderr
    assert other.cause.startswith(f"stopped because {LEADER} was asked to stop: worker rank 0 on {LEADER} was ended")


@pytest.mark.parametrize("other", [SAVES, IGNORES], ids=["saves", "is killed later"])
def test_an_error_before_the_stop_ended_anything_is_the_reason(tmp_path: Path, other: str) -> None:
    with Job(tmp_path, HOSTS) as job:
        first = job.start(HOSTS[0], CANNOT_SAVE, stop_grace=2.0)
        second = job.start(HOSTS[1], other, stop_grace=2.0)
        wait_for(tmp_path / "ready")
        second.process.terminate()
        for host in (first, second):
            host.finish()
    assert first.exit_code == 1
    assert second.exit_code == (0 if other == SAVES else KILLED)
    assert first.cause == f"stopped because algo-2 was asked to stop: worker rank 0 on {LEADER} exited with code 1"
    assert first.outcome["failure"]["last_lines"][-1] == "OSError: Input/output error"


def test_what_is_ended_because_of_an_error_does_not_explain_it(tmp_path: Path) -> None:
    server = Script(ENDED_AT_ONCE, role="ps", rank=1, essential=False)
    running = start(tmp_path, Script(CANNOT_SAVE, rank=0), server)
    wait_for(tmp_path / "ready")
    running.process.terminate()
    assert running.finish().exit_code == 1
    assert running.failure["cause"] == "stopped by SIGTERM: worker rank 0 on algo-1 exited with code 1"


def test_a_rank_that_exits_well_explains_no_error_of_another_one() -> None:
    assert look_at_ranks([RankEnd("0", "a", 1, 0), RankEnd("1", "a", 2, 1)]) == ("", True)
    assert look_at_ranks([RankEnd("0", "a", 1, 1), RankEnd("1", "a", 2, None)]) == ("", True)


@pytest.mark.parametrize("code", [-signal.SIGTERM, -signal.SIGKILL, STOPPED])
def test_a_rank_that_the_stop_ended_is_found_while_others_still_save(code: int) -> None:
    ranks = [RankEnd("3", "algo-2", 1, code), RankEnd("4", "algo-2", 2)]
    assert look_at_ranks(ranks) == ("worker rank 3 on algo-2 was ended", False)


def test_what_the_stop_ends_after_an_error_does_not_explain_it() -> None:
    known = StopAttribution()
    known.note_error(patience=-1.0)
    known.note_ended("worker rank 0 on algo-1 was ended")
    own = Failure("stopped by SIGTERM: worker rank 1 exited with code 1")
    assert known.explain(own, "stopped by SIGTERM", signal.SIGTERM) == own


def test_news_of_the_stop_may_come_a_little_after_the_error_that_follows_from_it() -> None:
    known = StopAttribution()
    known.note_error(PATIENCE)
    known.note_ended("")
    known.note_ended("worker rank 0 on algo-1 was ended")
    known.note_ended("another one")
    told = known.explain(Failure("why: rank 1 exited with code 1", exit_code=1), "why", signal.SIGINT)
    assert told.cause == "why: worker rank 0 on algo-1 was ended; then rank 1 exited with code 1"
    assert told.exit_code == 128 + signal.SIGINT


@pytest.mark.parametrize(("grace", "margin", "bound"), [(7.0, 3.0, 1.5), (100.0, 20.0, 10.0), (2.0, 20.0, 1.0)])
def test_news_of_a_stop_has_half_of_the_margin_or_of_the_grace(grace: float, margin: float, bound: float) -> None:
    stopped = Supervisor(Settings(stop_grace=grace, stop_margin=margin))
    stopped.stop = "stopped by SIGTERM"
    assert stopped._news_bound() == bound


@pytest.mark.parametrize("code", [KILLED, STOPPED])
def test_a_process_that_the_stop_ended_keeps_its_code(code: int) -> None:
    known = StopAttribution()
    known.note_ended("worker rank 0 on algo-1 was ended")
    assert was_ended_by_stop(code)
    assert known.explain(Failure("x", exit_code=code), "why", signal.SIGTERM) == Failure("x", exit_code=code)


def test_the_group_keeps_the_first_process_that_a_stop_of_the_job_ended() -> None:
    membership = Membership(GroupRules(HOSTS, HOSTS))
    membership.note_ended_by_stop("before any stop")
    membership.note_stopping(HOSTS[0])
    membership.note_ended_by_stop("first")
    membership.note_ended_by_stop("second")
    assert membership.ended_by_stop == "first"


# Rank 0 loses a peer that failed before it, and ends before that one, whose Python takes longer.
LOSES_A_RANK = """
import os, time
with open('pid.part', 'w') as file: file.write(str(os.getpid()))
os.rename('pid.part', 'pid')
while not os.path.exists('lost'): time.sleep(0.01)
raise RuntimeError('{words}')
"""
FAILS_FIRST = """
import atexit, os, pathlib, time
while not os.path.exists('pid'): time.sleep(0.01)
def end():
    pathlib.Path('lost').touch()
    while os.path.exists('/proc/' + pathlib.Path('pid').read_text()): time.sleep(0.01)
    time.sleep(0.3)
atexit.register(end)
raise ValueError('no data in the channel')
"""
SHUT_DOWN = "Horovod has been shut down. This was caused by an exception on one of the ranks"


def test_the_reason_is_the_rank_that_failed_and_not_the_one_that_lost_it_and_ended_sooner(tmp_path: Path) -> None:
    done = run(tmp_path, Script(LOSES_A_RANK.format(words=SHUT_DOWN), rank=0), Script(FAILS_FIRST, rank=1))
    assert done.failure["last_lines"][-1] == "ValueError: no data in the channel"
    assert done.failure["cause"].startswith("worker rank 1 on algo-1 exited with code 1; then worker rank 0")


@pytest.mark.parametrize("failing", [0, 1], ids=["the leader fails", "the other fails"])
def test_the_reason_on_every_host_is_the_rank_that_failed(tmp_path: Path, failing: int) -> None:
    scripts = [LOSES_A_RANK.format(words="Collective ops is aborted by: Socket closed")] * 2
    scripts[failing] = FAILS_FIRST
    with Job(tmp_path, HOSTS) as job:
        hosts = [job.start(host, script) for host, script in zip(HOSTS, scripts, strict=True)]
        for host in hosts:
            failure = host.finish().outcome["failure"]
            assert failure["last_lines"][-1] == "ValueError: no data in the channel"
            assert f"worker rank {failing} on {HOSTS[failing]} exited with code 1" in failure["cause"]


def test_a_rank_that_lost_one_of_which_nothing_is_heard_is_the_reason_itself(tmp_path: Path) -> None:
    (tmp_path / "lost").touch()
    short = "import launch.supervision.stop_attribution as module; module.CAUSE_SECONDS = 0.2"
    scripts = (Script(LOSES_A_RANK.format(words=SHUT_DOWN), rank=0), Script("import time; time.sleep(600)", rank=1))
    done = run(tmp_path, *scripts, before=short)
    assert done.failure["cause"] == "worker rank 0 on algo-1 exited with code 1"
    alone = run(tmp_path, LOSES_A_RANK.format(words=SHUT_DOWN))
    assert alone.failure["cause"] == "worker rank 0 on algo-1 exited with code 1"
