"""The parent of one rank below torchrun or mpirun: carries its output, and knows how it ended.

It stands between the starter and the user's program, because starters end all ranks when one ends badly: torchrun 30 s
later, mpirun after 2 s. After a stop it holds its own end back until all ranks of this host have ended, and then tells
the starter that all is well; how the rank really ended is in a file for the launcher.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import time

from launch import signals
from launch.base.paths import LOG_FOLDER
from launch.supervision import process_tree
from launch.supervision.event_log import EventLog
from launch.supervision.failure_cause import error_lines
from launch.supervision.output import Console, Stream
from launch.supervision.rank_files import LAUNCHER, OUTPUT_LOCK, RankEnd, RankFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


# Seconds; only output, signals and the end matter here
IDLE = 3600.0
# Seconds for a slow reader at the end
FINISH_BOUND = 60.0
# Seconds for the launcher to say that it has heard of a stop too
WORD_BOUND = 1.0
# linux/prctl.h
PR_SET_PDEATHSIG = 1
LAST_LINES = 20
MOST_LINES = 1000


def run_rank(
    command: Sequence[str], env: Mapping[str, str], host: str, rank: str, folder: str, in_packets: bool = False
) -> NoReturn:
    """Run the command as a child and end as it ended. `folder` is the launcher's for its ranks, "" for none.

    `in_packets`: mpirun carries what is written here, and the launcher knows how to put it together (mpi_output.py).
    """
    signals.arm()
    ranks = RankFolder(folder)
    # torchrun starts ranks anew when some end, also after a stop
    if ranks.is_stopping:
        os._exit(0)
    running = ranks.join()
    console = Console([signals.fileno()], ranks.open_lock(OUTPUT_LOCK))
    if in_packets:
        # torchrun's ranks share a pipe, and a lock
        from launch.supervision import mpi_output

        mpi_output.use_frames(console, f"{host}:{rank}")
    prefix = f"[{host}:{rank}] ".encode()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid = _start_program(command, env, out_write, err_write)
    events = EventLog(f"{env['SM_OUTPUT_DATA_DIR']}/{LOG_FOLDER}" if env.get("DLC_LOGS") == "1" else "", host)
    number = int(rank) if rank.isdigit() else -1
    events.record("start", role="worker", rank=number, pid=pid)
    log = events.open_log("worker", rank)
    streams = [Stream(out_read, console.stdout, prefix, log), Stream(err_read, console.stderr, prefix, log)]
    for stream in streams:
        console.add(stream)
    ranks.write(RankEnd(rank, host, pid))
    code = os.waitstatus_to_exitcode(_carry_until_the_end(console, pid, ranks))
    console.drain(streams)
    # A watchdog's SIGABRT brings out all stacks
    lines = MOST_LINES if code == -signal.SIGABRT else LAST_LINES
    last_lines = streams[1].last_lines(lines) or streams[0].last_lines(lines)
    # mpirun names the rank and not its host
    if code and in_packets and not last_lines:
        console.stderr.write(prefix + f"dlc: ended without a word, code {code}\n".encode())
    ranks.write(RankEnd(rank, host, pid, code, last_lines, error_lines(streams[1].last_lines(MOST_LINES))))
    if code == 0 and ranks.path:
        _tell_launcher(f"{ranks.path}/{LAUNCHER}")
    events.record("end", role="worker", rank=number, pid=pid, exit_code=code if code >= 0 else 128 - code)
    # A relative of the rank lives on and may have something to say
    if console.is_open and os.fork() == 0:
        os.setsid()
        _carry_the_rest(console)
    console.flush_all(FINISH_BOUND, lambda: ranks.is_stopping)
    if ranks.is_stopping and running >= 0:
        # Every rank of this host that still runs shares this lock
        fcntl.flock(running, fcntl.LOCK_EX)
        os._exit(0)
    _end_like(code)


def _start_program(command: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> int:
    """Start the program in a session of its own: no signal to our group may reach it beside the one we relay."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            # torchrun and mpirun kill us, and mean the rank
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            for signum in signals.IGNORED_BY_PYTHON:
                signal.signal(signum, signal.SIG_DFL)
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            os.execvpe(command[0], list(command), dict(env))
        except OSError as error:
            os.write(2, f"dlc: {command[0]}: {error.strerror}\n".encode("utf-8", "replace"))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    os.close(stdout)
    os.close(stderr)
    return pid


def _carry_until_the_end(console: Console, pid: int, ranks: RankFolder) -> int:
    """Carry output and relay each kind of stop signal once; the program's wait status.

    After a stop the launcher has signalled the program itself.
    """
    relayed: set[int] = set()
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        for signum in set(signals.received()) - relayed:
            relayed.add(signum)
            if not _is_told_by_launcher(ranks):
                process_tree.send_signal(pid, signum)
        for signum in signals.take_relayed():
            if process_tree.catches_signal(pid, signum):
                process_tree.send_signal(pid, signum)
        console.turn(IDLE)
        signals.drain_wakeups()


def _is_told_by_launcher(ranks: RankFolder) -> bool:
    """Return whether the launcher sees to it that the program hears of a stop.

    Below Slurm a stop may reach all processes at once (canary.py), and us before the launcher says so.
    """
    deadline = time.monotonic() + (WORD_BOUND if "SLURM_JOB_ID" in os.environ and ranks.path else 0.0)
    while not ranks.is_stopping and time.monotonic() < deadline:
        time.sleep(0.01)
    return ranks.is_stopping


def _tell_launcher(path: str) -> None:
    """Wake the launcher where this is the first rank here that ended with 0: ranks elsewhere may fail because of it."""
    with contextlib.suppress(OSError, ValueError):
        with open(path, encoding="ascii") as file:
            launcher = int(file.read())
        os.unlink(path)
        os.kill(launcher, signal.SIGCHLD)


def _carry_the_rest(console: Console) -> NoReturn:
    for signum in signals.STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    while console.is_open:
        console.turn(IDLE)
        signals.drain_wakeups()
    console.finish(FINISH_BOUND)
    os._exit(0)


def _end_like(code: int) -> NoReturn:
    """Exit with the code, or by the signal that ended the program, for the starter to see."""
    if code >= 0:
        os._exit(code)
    import resource

    # The program has left its own core, where one is wanted
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(128 - code)
