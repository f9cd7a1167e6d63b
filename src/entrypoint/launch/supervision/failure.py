"""The failure report: the frame on stderr, and the file whose first 1024 characters become the job's reason."""

from __future__ import annotations

import contextlib
import errno
import os

from launch.base.outcome import Failure, Outcome

DISK_FULL = 74  # EX_IOERR of sysexits.h
PROBE_SIZE = 4096  # bytes; a file system that cannot take one more block is full
REASON_LENGTH = 1024  # characters of the failure file that the platform reads


def frame(failure: Failure, with_lines: bool = True) -> str:
    """The report between two rules, for stderr; the last lines too where they stand far above or among other ranks'."""
    rule = "-" * 78
    lines = [rule, f"dlc: {failure.cause}"]
    if with_lines:
        lines += [f"  | {line}" for line in failure.last_lines]
    if failure.details:
        lines += [failure.details]
    return "\n".join([*lines, rule, ""])


def report(failure: Failure) -> str:
    """The failure file's text: the cause, then the last lines, the last of all surely within REASON_LENGTH."""
    head = failure.cause[: REASON_LENGTH // 2]
    room = REASON_LENGTH - len(head) - 2
    tail = "\n".join(failure.last_lines)
    reason = head if not tail else f"{head}\n{tail[-room:]}"
    if len(tail) > room or failure.details or head != failure.cause:
        reason = "\n\n".join(filter(None, [reason, *_rest(failure, tail, room)]))
    return reason + "\n"


def write(path: str, outcome: Outcome) -> bool:
    """Write the failure file of an outcome that has a failure; True when it was written.

    `path` is the file (/opt/ml/output/failure). One that the user's own code wrote is kept. A disk too full to hold it
    is no error here: the exit code still says it.
    """
    if outcome.failure is None:
        return False
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > 0:
            return False
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report(outcome.failure))
    except OSError:
        return False
    return True


def check_disk(outcome: Outcome, folders: tuple[str, ...], host: str = "") -> Outcome:
    """Turn a success into a failure where a folder of results (/opt/ml/model, /opt/ml/output) has no room left.

    Libraries swallow ENOSPC, and a truncated model would be uploaded as a good one. A folder that is not there is left
    out. A failed outcome is kept, with the full disk added to its cause.
    """
    full = [folder for folder in folders if os.path.isdir(folder) and _is_full(folder)]
    if not full:
        return outcome
    words = f"no space left on {' and '.join(full)}"
    if outcome.exit_code != 0 and outcome.failure:
        return outcome._replace(failure=outcome.failure._replace(cause=f"{outcome.failure.cause}; {words}"))
    cause = f"{words}: what was saved there may be cut short. Free space or ask for a larger volume"
    return Outcome(DISK_FULL, Failure(cause, host=host, exit_code=DISK_FULL))


def _is_full(folder: str) -> bool:
    """Try to write one block: quotas and overlay mounts make free-space figures unreliable."""
    probe = os.path.join(folder, f".dlc-space-{os.getpid()}")
    try:
        with open(probe, "wb", buffering=0) as file:
            written = file.write(b"\1" * PROBE_SIZE)
            os.fsync(file.fileno())
            return written < PROBE_SIZE
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)


def _rest(failure: Failure, tail: str, room: int) -> list[str]:
    """What did not fit into the platform's reason, for whoever reads the whole file."""
    whole_cause = failure.cause if len(failure.cause) > REASON_LENGTH // 2 else ""
    whole_tail = tail if len(tail) > room else ""
    return [whole_cause, whole_tail, failure.details]
