"""Which processes hear of a stop first: those with state, before loaders, loggers and shells.

Main is each planned process or, if that is a wrapper (a shell, torchrun, mpirun, sshd, ...), what it has started. A
script that would die of the stop at once is a wrapper too if a training that it has started would save.
Everything else belongs to a main process or to nobody: DataLoader workers, loggers, daemons. It hears of the stop when
the main ones have ended: a data loader that dies under a script which saves a few steps later takes the checkpoint
along. docs/supervision.md has the whole table of signals; graceful_stop.py sends them.
"""

from __future__ import annotations

import os
import re
import signal

from launch.base.compat import NamedTuple
from launch.supervision import process_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"))
# Programs and Python modules that run others and hold no state of a training.
WRAPPERS = SHELLS | {
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli", "deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
    "runner.py", "launch.py", "mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "orterun", "orted",
    "prterun", "prte", "prted", "smddprun", "smddpmprun", "horovodrun", "horovod.runner",
    "horovod.runner.launch", "sshd", "sshd-session", "torch_rank.py", "mpi_rank.py", "mpi_host.py",
    "neuron_parallel_compile",
    "env", "timeout", "sudo", "su", "tini", "dumb-init", "catatonit", "conda", "micromamba", "mamba", "uv",
    "poetry", "pipenv", "nsys", "ncu", "strace", "time", "make", "gmake", "xargs", "parallel", "find", "script",
    "flock", "unshare", "setsid", "nohup", "runuser", "setpriv",
}  # fmt: skip
# They carry somebody's output or connection, or only wait: ending them first takes something from a main process.
PIPE_PROGRAMS = frozenset((
    "tee", "cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "tr", "cut", "ts", "head", "tail", "logger",
    "stdbuf", "unbuffer", "pv", "rotatelogs", "multilog", "svlogd", "systemd-cat", "ssh", "sleep", "inotifywait",
    "mpi_agent.py",
))  # fmt: skip
_HELPER = re.compile(r"from multiprocessing\.(resource_tracker|semaphore_tracker) import")
# Also of what it has started, which has no handler for SIGCHLD
_FORKSERVER = re.compile(r"from multiprocessing\.forkserver import")
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
# DeepSpeed's, if they lie in its folder; else a user's own name
_SHADOWED = frozenset(("runner.py", "launch.py"))
_LOOKED_FOR = (signal.SIGTERM, signal.SIGXCPU, signal.SIGCHLD)


class Process(NamedTuple):
    """One process as a snapshot of /proc shows it."""

    pid: int
    parent: int
    # Its command line
    words: tuple[str, ...]
    # The pipe that is its stdin ("pipe:[123]"), empty for anything else
    reads: str = ""
    # Pipes that are its stdout and stderr
    writes: tuple[str, ...] = ()
    # A shell whose script has a trap for SIGTERM
    traps_stop: bool = False
    # Started with & by a shell
    in_background: bool = False
    # It has a handler for SIGTERM, or waits for it with sigwait
    catches_stop: bool = False
    # It has a handler for SIGCHLD, as PyTorch's DataLoader installs in the script whose workers it has started
    watches_children: bool = False


def first_to_stop(processes: Iterable[Process], planned: Collection[int], adopter: int = 0) -> list[int]:
    """Return the main processes below the planned ones (pids), each once, parents before children.

    Starters whose parents are gone count as planned: mpirun's orted makes itself a daemon. `adopter` is the parent of
    such processes then.
    """
    tree = {process.pid: process for process in processes}
    children = _by_parent(tree.values())
    daemons = [child.pid for child in children.get(adopter, ()) if child.pid not in planned and is_wrapper(child.words)]
    return _mains_of([tree[pid] for pid in (*planned, *daemons) if pid in tree], children)


def left_at_work(processes: Iterable[Process], orphans: Collection[int]) -> list[int]:
    """Return those of the processes that lost their parents which do more than to carry the output of others."""
    left = [process for process in processes if process.pid in orphans]
    return [process.pid for process in left if not _is_pipe(process, left)]


def _by_parent(processes: Iterable[Process]) -> dict[int, list[Process]]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    return children


def _mains_of(roots: Iterable[Process], children: Mapping[int, list[Process]]) -> list[int]:
    return list(dict.fromkeys(main.pid for root in roots for main in _first_below(root, children)))


def is_wrapper(words: tuple[str, ...]) -> bool:
    """Return whether this command line is of a program that only runs others."""
    name, path = _program_of(words)
    if name == "accelerate":
        return "launch" in words
    if name in _SHADOWED:
        return "deepspeed" in path
    return name in WRAPPERS


def is_shell(words: tuple[str, ...]) -> bool:
    """Return whether this command line is of a shell, which may have more to do when what it runs has ended."""
    return _program_of(words)[0] in SHELLS


def _first_below(process: Process, children: Mapping[int, list[Process]]) -> list[Process]:
    """Return the process, or what it has started. A wrapper that started nothing is signalled itself."""
    started = [child for child in children.get(process.pid, ()) if not _is_pipe(child, children[process.pid])]
    if not is_wrapper(process.words) and not (process.watches_children and _FORKSERVER.search(" ".join(process.words))):
        # A script with a handler does what it wants; one that watches its workers fails if they end before it.
        if process.catches_stop or process.watches_children:
            return [process]
        below = [main for child in started for main in _first_below(child, children)]
        return [main for main in below if main.catches_stop and runs_python(main.words)] or [process]
    # A script's own trap comes to know of the stop, and passes it on to what it waits for in the background.
    if process.traps_stop:
        started = [child for child in started if not child.in_background]
    below = [main for child in started for main in _first_below(child, children)]
    return [process, *below] if process.traps_stop or not below else below


def _is_pipe(process: Process, siblings: list[Process]) -> bool:
    """Return whether it serves another process: a filter, a connection, a logger that reads a sibling's output."""
    if _program_of(process.words)[0] in PIPE_PROGRAMS or _HELPER.search(" ".join(process.words)):
        return True
    writers = [other for other in siblings if process.reads and process.reads in other.writes]
    return any(other is not process and _program_of(other.words)[0] not in PIPE_PROGRAMS for other in writers)


def runs_python(words: tuple[str, ...]) -> bool:
    """Return whether this command line is of a Python."""
    return bool(words) and _PYTHON.fullmatch(os.path.basename(words[0])) is not None


def _program_of(words: tuple[str, ...]) -> tuple[str, str]:
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


def take_snapshot() -> list[Process]:
    """Return every descendant, parents before children."""
    return [_process(pid) for pid in process_tree.find_descendants()]


def _process(pid: int) -> Process:
    words = process_tree.command_of(pid)
    masks = process_tree.signal_masks(pid)
    caught = {signum: process_tree.has_signal(masks, "SigCgt", signum) for signum in _LOOKED_FOR}
    return Process(
        pid,
        process_tree.parent_of(pid),
        words,
        reads=_pipe_at(pid, 0),
        writes=tuple(filter(None, (_pipe_at(pid, 1), _pipe_at(pid, 2)))),
        # With a trap for EXIT, bash handles every fatal signal, SIGXCPU too; with a trap for SIGTERM only that one.
        traps_stop=is_shell(words) and caught[signal.SIGTERM] and not caught[signal.SIGXCPU],
        # A shell without job control starts `command &` with SIGINT ignored.
        in_background=process_tree.has_signal(masks, "SigIgn", signal.SIGINT),
        catches_stop=caught[signal.SIGTERM] or process_tree.has_signal(masks, "SigBlk", signal.SIGTERM),
        watches_children=caught[signal.SIGCHLD],
    )


def _pipe_at(pid: int, fd: int) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""
    return target if target.startswith("pipe:") else ""
