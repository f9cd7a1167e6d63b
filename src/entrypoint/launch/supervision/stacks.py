"""What a job that hangs shows: Python stacks of every process by faulthandler, and NCCL's flight recorder.

A process started with PYTHONFAULTHANDLER=1 prints the stacks of its threads to its stderr when it gets SIGABRT, from C,
also while it is stuck in a library. It ends by that, so this is only for a job that is about to be ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from launch.supervision import descendants
from launch.supervision.child import name_of
from launch.supervision.mains import is_starter
from launch.supervision.output import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launch.base.errors import Outcome
    from launch.base.process_spec import ProcessSpec
    from launch.supervision.ranks import RankFolder

PER_PROCESS = 10.0  # seconds for one process to print its stacks and end; a busy host reads its libraries in first
ALTOGETHER = 60.0  # seconds
MOST_TEXT = 1 << 18  # characters of one process's stacks


def added(outcome: Outcome, running: Mapping[int, ProcessSpec], console: Console, ranks: RankFolder) -> Outcome:
    """The outcome of a job that hangs, with these processes' stacks; the files of NCCL's flight recorder are said."""
    dumps = [path for spec in running.values() for path in dump(spec.env)]
    if dumps:
        console.stderr.write(f"dlc: NCCL's flight recorder: {', '.join(dumps)}\n".encode("utf-8", "replace"))
    details = collect(console, {pid: name_of(spec) for pid, spec in running.items()}, ranks)
    return outcome._replace(failure=outcome.failure and outcome.failure._replace(details=details))


def collect(console: Console, planned: Mapping[int, str], ranks: RankFolder) -> str:
    """End every descendant that runs Python, each with its stacks: a text with one section per process.

    `planned` names processes (pid -> "worker rank 3"); others go by their RANK variable. All are frozen first and abort
    one by one, children before parents, so that none reacts to another's end and the text of each is its own. Starters
    and the parents of ranks are left alone: the text comes through them, and they have no stack to tell of.
    """
    ranks.stop()  # an aborted rank is no reason for its starter to end the others
    pids = [pid for pid in descendants.descendants() if not is_starter(descendants.command(pid))]
    names = {pid: _name(pid, planned) for pid in pids}
    for pid in pids:
        _send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + ALTOGETHER
    sections = {}
    for pid in reversed(pids):
        if _runs_python(pid) and time.monotonic() < deadline:
            sections[pid] = f"--- {names[pid]}\n{_abort(console, pid, ranks)}"
    for pid in pids:
        _send(pid, signal.SIGCONT)
    return "\n".join(sections[pid] for pid in pids if pid in sections)


def _abort(console: Console, pid: int, ranks: RankFolder) -> str:
    below_parent = any(end.pid == pid for end in ranks.ends())
    console.begin_capture()
    _send(pid, signal.SIGABRT)
    _send(pid, signal.SIGCONT)
    deadline = time.monotonic() + PER_PROCESS
    told = ""
    while time.monotonic() < deadline and (descendants.is_running(pid) or (below_parent and not told)):
        console.turn(0.02)
        told = _as_its_parent_tells(pid, ranks) if below_parent else ""
    console.turn(0.0)
    text = console.end_capture()[-MOST_TEXT:].decode("utf-8", "replace").strip()
    return told or text or "no stack: PYTHONFAULTHANDLER=1 is not in its environment, or its stderr goes elsewhere"


def _as_its_parent_tells(pid: int, ranks: RankFolder) -> str:
    """The last words of a rank: below mpirun they go to the leader's log, wherever the rank runs."""
    return "\n".join(line for end in ranks.ends() if end.pid == pid and end.code for line in end.last_lines)


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def _runs_python(pid: int) -> bool:
    try:
        return re.search(r"python[\d.]*$", os.readlink(f"/proc/{pid}/exe")) is not None
    except OSError:
        return False


def _name(pid: int, ranks: Mapping[int, str]) -> str:
    name = ranks.get(pid) or _rank_of(pid)
    return f"{name}, process {descendants.describe(pid)}" if name else f"process {descendants.describe(pid)}"


def _rank_of(pid: int) -> str:
    """`rank 3` where torchrun or mpirun said so in the process's environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"(?:^|\0)(?:RANK|OMPI_COMM_WORLD_RANK|HOROVOD_RANK)=(\d+)", file.read())
    except OSError:
        return ""
    return f"rank {found.group(1).decode()}" if found else ""


# A job that waits still wakes up its background threads now and then; one that works uses far more. A rank that waits
# in a busy loop (NCCL spins) counts as working: its framework's own timeout has to notice.


PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
FILE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
BOUND = 5.0  # seconds for the dumps; the thread looks once a second
LOOK = 0.1  # seconds


def dump(variables: Mapping[str, str]) -> list[str]:
    """The files that came of asking the ranks of a process with these variables; none where nobody listens."""
    pipes, files = variables.get(PIPE_VARIABLE, ""), variables.get(FILE_VARIABLE, "")
    if not pipes or not files:
        return []
    started = time.time()
    asked = sum(_ask(path) for path in _beginning_with(pipes) if path.endswith(".pipe"))
    deadline = time.monotonic() + BOUND
    found: list[str] = []
    while asked and len(found) < asked and time.monotonic() < deadline:
        time.sleep(LOOK)
        found = [path for path in _beginning_with(files) if os.path.getmtime(path) >= started - 1]
    return sorted(found)


def _ask(path: str) -> bool:
    with contextlib.suppress(OSError):  # nobody reads it any more
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(fd, b"1\n") > 0
        finally:
            os.close(fd)
    return False


def _beginning_with(prefix: str) -> list[str]:
    folder, name = os.path.split(prefix)
    try:
        return [f"{folder}/{entry}" for entry in os.listdir(folder) if entry.startswith(name)]
    except OSError:
        return []
