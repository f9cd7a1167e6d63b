"""What a script that ended well had left running, such as `nohup python train.py &`: it is ended, and that is said.

If that was a program of the user's code and nothing was saved, the job has not done what it was for: it has failed.
Loaded only if something is left.
"""

from __future__ import annotations

import os
import signal
import sys

from launch.base.errors import Failure, Outcome
from launch.base.paths import LOG_FOLDER
from launch.supervision import process_tree, stop_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from launch.base.process_spec import ProcessSpec

# Words of a command line in which a program's own file is looked for
MOST_WORDS = 8


def describe_left(orphans: Collection[int], specs: Sequence[ProcessSpec]) -> tuple[str, tuple[str, ...]]:
    """Return a line about the programs among these orphans and below them, and those that are of the user's code.

    Filters are left out, and forks of the planned processes themselves.
    """
    snapshot = stop_targets.take_snapshot()
    at_work = stop_targets.left_at_work(snapshot, orphans)
    words = {process.pid: process.words for process in snapshot}
    planned = [spec.argv for spec in specs]
    left = [pid for pid in stop_targets.first_to_stop(snapshot, at_work) if words[pid] not in planned]
    line = f"the script has left this running, and it is ended now: {process_tree.list_processes(left)}" if left else ""
    return line, tuple(process_tree.describe_process(pid) for pid in left if _runs_code(pid, specs[0].cwd))


def _runs_code(pid: int, folder: str) -> bool:
    words = process_tree.command_of(pid)[:MOST_WORDS]
    try:
        here = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    modules = [word.replace(".", "/") for before, word in zip(words, words[1:]) if before == "-m"]
    candidates = [*words, *(f"{module}.py" for module in modules), *modules]
    paths = [os.path.realpath(os.path.join(here, name)) for name in candidates if name and not name.startswith("-")]
    return any(path.startswith(f"{os.path.realpath(folder)}/") and os.path.exists(path) for path in paths)


def judge_end(outcome: Outcome, results: Collection[str], host: str) -> Outcome:
    """Return the outcome as a failure if a program of the user's code was ended before anything was saved.

    `results` are the folders that are kept after the job.
    """
    if outcome.exit_code or outcome.stopped or not outcome.left_running or any(map(_has_files, results)):
        return outcome
    cause = (
        f"the script on {host} ended with code 0 while {', '.join(outcome.left_running)} still ran in the background;"
        " it was ended, and nothing was saved; let the script wait for it (`wait` in a shell, no `&` and no nohup)"
    )
    print(f"dlc: {cause}", file=sys.stderr, flush=True)
    code = 128 + signal.SIGTERM
    return outcome._replace(exit_code=code, failure=Failure(cause, host=host, exit_code=code))


def _has_files(folder: str) -> bool:
    own = f"{folder}/{LOG_FOLDER}"
    return any(files for path, _, files in os.walk(folder) if path != own)
