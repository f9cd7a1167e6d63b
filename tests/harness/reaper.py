"""Removes what a test run leaves when it ends, however it ends: containers, networks and processes, daemons too.

A process of its own in a session of its own. It waits until the run closes a pipe, which the kernel does for a run that
is killed. The run's processes are those that inherited its number in RUN_VARIABLE, or name its temporary folder in
their command line; its containers and networks have the number in a label; jobs of `dlc run` are claimed in the folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RUN_VARIABLE = "DLC_TEST_RUN"
LABEL = "org.dlc.test-run"
TERM_SECONDS = 20.0  # for a daemon to end its own containers
END_SECONDS = 600.0  # for the whole removal, by a busy engine too; a hang is reported
CLAIM_DEPTH = 6  # folders below the temporary one: popen-gw0/test_name0/cache/jobs


class Reaper:
    """The process, as the run sees it."""

    def __init__(self, number: str, temporary: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.reaper", number, str(temporary)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def finish(self) -> str:
        """Let it remove what is left and wait for it; what that was, a line each."""
        try:
            return self._process.communicate("", timeout=END_SECONDS)[0]
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"the removal of what is left did not end within {END_SECONDS:.0f} s\n"


def processes(number: str, temporary: Path, but: int = 0) -> dict[int, str]:
    """Pid -> command line of this host's processes that belong to the run; not this one, and not `but`."""
    mark = f"{RUN_VARIABLE}={number}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(temporary) in command or mark in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = command
        except OSError:
            continue
    return {pid: command for pid, command in found.items() if command and pid not in (os.getpid(), but)}


def end_processes(number: str, temporary: Path, run: int) -> list[str]:
    """End them, but not the run itself; their command lines."""
    left = processes(number, temporary, run)
    lines = [f"process {pid}: {command[:120]}" for pid, command in left.items()]
    for signum, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
        for pid in processes(number, temporary, run):
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + seconds
        while processes(number, temporary, run) and time.monotonic() < deadline:
            time.sleep(0.1)
    return lines


def remove_from_engine(number: str, temporary: Path) -> list[str]:
    """Remove the run's containers and networks; their names. None without an engine or dlc, as in an image."""
    try:
        from dlc.core.errors import DlcError
        from dlc.engine.connection import find_engine
        from dlc.engine.questions import ASK_SECONDS
        from dlc.places.local.claims import remove_leftovers
    except ImportError:
        return []
    try:
        engine = find_engine(ASK_SECONDS)
        if engine is None:
            return []
        removed = []
        for kind, listing, removal in (
            ("container", ("ps", "--all"), ("rm", "--force", "--volumes")),
            ("network", ("network", "ls"), ("network", "rm")),
        ):
            form = ("--filter", f"label={LABEL}={number}", "--format", "{{.ID}}")
            found = engine.docker(*listing, *form).stdout.split()
            if found:
                engine.docker(*removal, *found, check=False)
            removed += [f"{kind} {name}" for name in found]
        for folder in claims(temporary):
            removed += remove_leftovers(folder, engine)
    except DlcError as error:
        return [f"not everything could be removed: {error}"]
    return removed


def claims(temporary: Path) -> list[Path]:
    """The folders below the temporary one in which dlc notes its jobs."""
    found = []
    for name, folders, _ in os.walk(temporary):
        path = Path(name)
        if path.name == "jobs" and not folders:  # not the room of dlc's sources in a checkout that a test copied
            found.append(path)
        if len(path.relative_to(temporary).parts) >= CLAIM_DEPTH:
            folders.clear()
    return found


def main(number: str, temporary: Path) -> None:
    """Wait for the end of the run, then remove."""
    run = os.getppid()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    sys.stdin.read()
    lines = [*end_processes(number, temporary, run), *remove_from_engine(number, temporary)]
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody waits: the run was killed


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
