"""Decides which processes are a job's main ones: those that hear of a stop at once, because they have state to save.

Main is each planned process or, where that is a starter (a shell, torchrun, mpirun, sshd, ...), what it has started.
Everything else belongs to a main process or to nobody: DataLoader workers, loggers, daemons. It hears of the stop when
the main ones have ended: a data loader that dies under a script which saves a few steps later takes the checkpoint
along. docs/supervision.md has the whole table of signals.
"""

from __future__ import annotations

import os
import re

from launch.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"))
# Programs and Python modules that run others and hold no state of a training.
STARTERS = SHELLS | {
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli", "deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
    "runner.py", "launch.py", "mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "orterun", "orted",
    "prterun", "prte", "prted", "smddprun", "smddpmprun", "horovodrun", "horovod.runner",
    "horovod.runner.launch", "sshd", "sshd-session", "torch_rank.py", "mpi_rank.py", "mpi_host.py",
    "neuron_parallel_compile",
    "env", "timeout", "sudo", "su", "tini", "dumb-init", "catatonit", "conda", "micromamba", "mamba", "uv",
    "poetry", "pipenv", "nsys", "ncu", "strace", "time"
}  # fmt: skip
# They carry somebody's output or connection, or only wait: ending them first takes something from a main process.
CARRIERS = frozenset((
    "tee", "cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "tr", "cut", "ts", "head", "tail", "logger",
    "stdbuf", "unbuffer", "pv", "rotatelogs", "multilog", "svlogd", "systemd-cat", "ssh", "sleep", "inotifywait",
    "mpi_agent.py",
))  # fmt: skip
_HELPER = re.compile(r"from multiprocessing\.(resource_tracker|forkserver|semaphore_tracker) import")
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SHADOWED = frozenset(("runner.py", "launch.py"))  # DeepSpeed's, where they lie in its folder; else a user's own name


class Process(NamedTuple):
    """One process as a snapshot of /proc shows it."""

    pid: int
    parent: int
    words: tuple[str, ...]  # its command line
    reads: str = ""  # the pipe that is its stdin ("pipe:[123]"), empty for anything else
    writes: tuple[str, ...] = ()  # pipes that are its stdout and stderr
    traps_stop: bool = False  # a shell whose script has a trap for SIGTERM
    in_background: bool = False  # started with & by a shell


def mains(processes: Iterable[Process], planned: Collection[int], adopter: int = 0) -> list[int]:
    """The main processes below the planned ones (pids), each once, parents before children.

    Starters whose parents are gone count as planned: mpirun's orted makes itself a daemon. `adopter` is the parent of
    such processes then.
    """
    tree = {process.pid: process for process in processes}
    children: dict[int, list[Process]] = {}
    for process in tree.values():
        children.setdefault(process.parent, []).append(process)
    found: list[int] = []
    daemons = [child.pid for child in children.get(adopter, ()) if child.pid not in planned and is_starter(child.words)]
    for pid in (*planned, *daemons):
        if pid in tree:
            found += [main for main in _mains_of(tree[pid], children) if main not in found]
    return found


def is_starter(words: tuple[str, ...]) -> bool:
    """Whether this command line is of a program that only runs others."""
    name, path = _program(words)
    if name == "accelerate":
        return "launch" in words
    if name in _SHADOWED:
        return "deepspeed" in path
    return name in STARTERS


def _mains_of(process: Process, children: Mapping[int, list[Process]]) -> list[int]:
    """The process itself, or what it has started. A starter without anything to show for it is signalled itself."""
    if not is_starter(process.words):
        return [process.pid]
    started = [child for child in children.get(process.pid, ()) if not _carries(child, children[process.pid])]
    # A script's own trap comes to know of the stop, and passes it on to what it waits for in the background.
    if process.traps_stop:
        started = [child for child in started if not child.in_background]
    below = [main for child in started for main in _mains_of(child, children)]
    return [process.pid, *below] if process.traps_stop or not below else below


def _carries(process: Process, siblings: list[Process]) -> bool:
    """Whether it serves another process: a filter, a connection, a logger that reads what a sibling writes."""
    if _program(process.words)[0] in CARRIERS or _HELPER.search(" ".join(process.words)):
        return True
    writers = [other for other in siblings if process.reads and process.reads in other.writes]
    return any(other is not process and _program(other.words)[0] not in CARRIERS for other in writers)


def _program(words: tuple[str, ...]) -> tuple[str, str]:
    """(name, path) of the program, or of the script or module that a Python runs; names without their folder."""
    if not words:
        return "", ""
    first = words[0].partition(":")[0] if words[0].startswith("sshd") else words[0]
    name = os.path.basename(first).lstrip("-")
    return _python_target(words[1:]) if _PYTHON.fullmatch(name) else (name, first)


def _python_target(words: tuple[str, ...]) -> tuple[str, str]:
    rest = iter(words)
    for word in rest:
        if word == "-m":
            module = next(rest, "")
            return module, module
        if word.startswith("-c"):
            return "", ""
        if word in ("-X", "-W"):
            next(rest, "")
        elif not word.startswith("-"):
            return os.path.basename(word), word
    return "", ""
