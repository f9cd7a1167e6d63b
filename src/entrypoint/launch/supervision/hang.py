"""Notices that a job hangs, and shows what it hangs in. Loaded only with DLC_HANG_TIMEOUT, or when another host hangs.

A job hangs when for a whole timeout no process wrote anything, all together used next to no CPU, and no thread waited
for a processor that other programs had. Then every process shows its Python stacks by faulthandler, and NCCL's flight
recorder says who waits for whom.

A process started with PYTHONFAULTHANDLER=1 prints the stacks of its threads to its stderr when it gets SIGABRT, from C,
also while it is stuck in a library. It ends by that, so this is only for a job that is about to be ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from launch.base.compat import NamedTuple
from launch.supervision import process_tree
from launch.supervision.child_process import process_name
from launch.supervision.output import Console
from launch.supervision.stop_targets import is_wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launch.base.errors import Outcome
    from launch.base.process_spec import ProcessSpec
    from launch.supervision.rank_files import RankFolder


# A job that waits still wakes up its background threads now and then; one that works uses far more. A rank that waits
# in a busy loop (NCCL spins) counts as working: its framework's own timeout has to notice.
# Of one core
IDLE_SHARE = 0.01
# A thread that wants to run for so much of the time is at work, even if other programs leave it next to no CPU
RUNNABLE_SHARE = 0.5
NANOSECONDS = 1e9


class Watchdog:
    """Asked again and again; remembers when there was progress last."""

    def __init__(self, timeout: float) -> None:
        """Take the timeout in seconds; 0 never barks."""
        self.timeout = timeout
        self._progress_at = self._looked_at = time.monotonic()
        self._bytes = 0
        self._ticks: dict[int, int] = {}
        self._threads: dict[str, _Thread] = {}
        self._used_since_progress = 0.0
        self._interval = min(5.0, timeout / 4)

    def is_hung(self, bytes_read: int) -> bool:
        """Return whether there was no progress for `timeout` seconds; `bytes_read` counts the output so far."""
        now = time.monotonic()
        if not self.timeout or now - self._looked_at < self._interval:
            return False
        if now - self._looked_at > 2 * self._interval + 1.0:
            # This process stood still itself (a paused container)
            self._progress_at = now
        elapsed, self._looked_at = now - self._looked_at, now
        self._used_since_progress += self._cpu_seconds()
        busy = self._used_since_progress > IDLE_SHARE * max(self._interval, now - self._progress_at)
        starved = self._wants_to_run(RUNNABLE_SHARE * elapsed)
        if bytes_read != self._bytes or busy or starved:
            self._bytes, self._progress_at, self._used_since_progress = bytes_read, now, 0.0
        return now - self._progress_at >= self.timeout

    def describe(self, host: str) -> str:
        """Say what was noticed."""
        return (
            f"the job hangs on {host}: no output and no CPU use for {self.timeout:g} s (DLC_HANG_TIMEOUT); "
            "the Python stacks of its processes follow"
        )

    def _cpu_seconds(self) -> float:
        """Return the CPU time that descendants used since the last call; a new process counts with all it has used."""
        ticks = {pid: process_tree.cpu_ticks(pid) for pid in process_tree.find_descendants()}
        used = sum(max(0, count - self._ticks.get(pid, 0)) for pid, count in ticks.items())
        self._ticks = ticks
        return float(used) / os.sysconf("SC_CLK_TCK")

    def _wants_to_run(self, seconds: float) -> bool:
        """Return whether a thread ran or waited for a processor for so long since the last call."""
        known, self._threads = self._threads, {}
        found = False
        for pid in process_tree.find_descendants():
            for thread, runnable, slices in _read_threads(pid):
                before = known.get(thread)
                # The kernel counts a wait when it is over
                waits = before is not None and before.slices == slices and _is_runnable(pid, thread)
                self._threads[thread] = _Thread(runnable, slices, waits)
                found = found or (
                    before is not None and (runnable - before.runnable >= seconds or (waits and before.waits))
                )
        return found


class _Thread(NamedTuple):
    """One thread as the watchdog saw it last."""

    # Seconds that it ran or waited for a processor
    runnable: float
    # How often it got a processor
    slices: int
    # It has not had a processor since the look before, and wants one
    waits: bool


def _read_threads(pid: int) -> list[tuple[str, float, int]]:
    """Return each thread of a process with its seconds and its slices; see proc-schedstat in the kernel's pages."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                ran, waited, slices = map(int, file.read().split())
                found.append((thread, (ran + waited) / NANOSECONDS, slices))
    return found


def _is_runnable(pid: int, thread: str) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[:1] == [b"R"]
    return False


# For one process to print its stacks and end; a busy host reads its libraries in first
PROCESS_SECONDS = 10.0
ALL_PROCESSES_SECONDS = 60.0
# Characters of one process's stacks
MOST_TEXT = 1 << 18


def add_stacks(outcome: Outcome, running: Mapping[int, ProcessSpec], console: Console, ranks: RankFolder) -> Outcome:
    """Add these processes' stacks to the outcome of a job that hangs; name the files of NCCL's flight recorder."""
    dumps = [path for spec in running.values() for path in dump_flight_recorder(spec.env)]
    if dumps:
        console.stderr.write(f"dlc: NCCL's flight recorder: {', '.join(dumps)}\n".encode("utf-8", "replace"))
    details = collect_stacks(console, {pid: process_name(spec) for pid, spec in running.items()}, ranks)
    return outcome._replace(failure=outcome.failure and outcome.failure._replace(details=details))


def collect_stacks(console: Console, planned: Mapping[int, str], ranks: RankFolder) -> str:
    """End every descendant that runs Python, each with its stacks: a text with one section per process.

    `planned` names processes (pid -> "worker rank 3"); others go by their RANK variable. All are frozen first and abort
    one by one, children before parents, so that none reacts to another's end and the text of each is its own. Starters
    and the parents of ranks are left alone: the text comes through them, and they have no stack to tell of.
    """
    # An aborted rank is no reason for its starter to end the others
    ranks.mark_stopping()
    pids = [pid for pid in process_tree.find_descendants() if not is_wrapper(process_tree.command_of(pid))]
    names = {pid: _process_name(pid, planned) for pid in pids}
    for pid in pids:
        _send_signal(pid, signal.SIGSTOP)
    deadline = time.monotonic() + ALL_PROCESSES_SECONDS
    sections = {}
    for pid in reversed(pids):
        if _runs_python(pid) and time.monotonic() < deadline:
            sections[pid] = f"--- {names[pid]}\n{_abort_process(console, pid, ranks)}"
    for pid in pids:
        _send_signal(pid, signal.SIGCONT)
    return "\n".join(sections[pid] for pid in pids if pid in sections)


def _abort_process(console: Console, pid: int, ranks: RankFolder) -> str:
    below_parent = any(end.pid == pid for end in ranks.read_ends())
    console.begin_capture()
    _send_signal(pid, signal.SIGABRT)
    _send_signal(pid, signal.SIGCONT)
    deadline = time.monotonic() + PROCESS_SECONDS
    told = ""
    while time.monotonic() < deadline and (process_tree.is_running(pid) or (below_parent and not told)):
        console.turn(0.02)
        told = _stack_in_rank_file(pid, ranks) if below_parent else ""
    console.turn(0.0)
    text = console.end_capture()[-MOST_TEXT:].decode("utf-8", "replace").strip()
    return told or text or "no stack: PYTHONFAULTHANDLER=1 is not in its environment, or its stderr goes elsewhere"


def _stack_in_rank_file(pid: int, ranks: RankFolder) -> str:
    """Return the last words of a rank: below mpirun they go to the leader's log, wherever the rank runs."""
    return "\n".join(line for end in ranks.read_ends() if end.pid == pid and end.code for line in end.last_lines)


def _send_signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def _runs_python(pid: int) -> bool:
    try:
        return re.search(r"python[\d.]*$", os.readlink(f"/proc/{pid}/exe")) is not None
    except OSError:
        return False


def _process_name(pid: int, ranks: Mapping[int, str]) -> str:
    name = ranks.get(pid) or _rank_of(pid)
    return (
        f"{name}, process {process_tree.describe_process(pid)}"
        if name
        else f"process {process_tree.describe_process(pid)}"
    )


def _rank_of(pid: int) -> str:
    """Return `rank 3` if torchrun or mpirun said so in the process's environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"(?:^|\0)(?:RANK|OMPI_COMM_WORLD_RANK|HOROVOD_RANK)=(\d+)", file.read())
    except OSError:
        return ""
    return f"rank {found.group(1).decode()}" if found else ""


PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
FILE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
# For the dumps; the thread looks once a second
DUMP_SECONDS = 5.0
LOOK_SECONDS = 0.1


def dump_flight_recorder(variables: Mapping[str, str]) -> list[str]:
    """Ask the ranks of a process with these variables for dumps; return the files, none if nobody listens."""
    pipes, files = variables.get(PIPE_VARIABLE, ""), variables.get(FILE_VARIABLE, "")
    if not pipes or not files:
        return []
    started = time.time()
    asked = sum(_ask_for_dump(path) for path in _files_beginning_with(pipes) if path.endswith(".pipe"))
    deadline = time.monotonic() + DUMP_SECONDS
    found: list[str] = []
    while asked and len(found) < asked and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        found = [path for path in _files_beginning_with(files) if os.path.getmtime(path) >= started - 1]
    return sorted(found)


def _ask_for_dump(path: str) -> bool:
    # Nobody reads it any more
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(fd, b"1\n") > 0
        finally:
            os.close(fd)
    return False


def _files_beginning_with(prefix: str) -> list[str]:
    folder, name = os.path.split(prefix)
    try:
        return [f"{folder}/{entry}" for entry in os.listdir(folder) if entry.startswith(name)]
    except OSError:
        return []
