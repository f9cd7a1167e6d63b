"""The failure report: the frame on stderr, and the file whose first 1024 characters become the job's reason."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys

from launch.base.errors import Failure, Outcome

# EX_IOERR of sysexits.h
DISK_FULL = 74
# A file system that cannot take one more block is full
PROBE_BYTES = 4096
# Characters of the failure file that SageMaker reads
REASON_LENGTH = 1024


# All but tab and newline
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def as_frame(failure: Failure, with_lines: bool = True) -> str:
    """Return the report between two rules, for stderr: the cause, and what the process said last.

    `with_lines`: all its last lines, if they stand far above or among other ranks'; else those that tell most.
    """
    # Only jobs that failed need it
    from launch.supervision.failure_cause import most_telling_lines

    failure = _without_control(failure)
    told = most_telling_lines(failure.error, failure.last_lines)
    rule = "-" * 78
    lines = [rule, f"dlc: {failure.cause}"]
    lines += [f"  | {line}" for line in (failure.last_lines if with_lines else told)]
    if failure.details:
        lines += [failure.details]
    return "\n".join([*lines, rule, ""])


def as_file_text(failure: Failure) -> str:
    """Return the failure file's text: the cause, then the last telling lines, within REASON_LENGTH.

    If they do not fit: without what says nothing, then with the last traceback's error and user's frame before them.
    """
    # Only jobs that failed need it
    from launch.supervision.failure_cause import last_whole_lines

    failure = _without_control(failure)
    head = failure.cause[: REASON_LENGTH // 2]
    room = REASON_LENGTH - len(head) - 2
    tail = "\n".join(failure.last_lines)
    if len(tail) > room:
        head, tail_shown = _shorten_failure(failure, head)
        room = REASON_LENGTH - len(head) - 2
    else:
        tail_shown = tail
    reason = head if not tail else f"{head}\n{last_whole_lines(tail_shown, room)}"
    if tail_shown != tail or len(tail) > room or failure.details or not head.startswith(failure.cause):
        # What did not fit into SageMaker's reason, for whoever reads the whole file.
        reason = reason.ljust(REASON_LENGTH if tail_shown != tail or len(tail) > room else 0, "\n")
        whole_cause = failure.cause if len(failure.cause) > REASON_LENGTH // 2 else ""
        whole_tail = tail if len(tail) > room else ""
        reason = "\n\n".join(filter(None, [reason, whole_cause, whole_tail, failure.details]))
    return reason + "\n"


# What `reserve_file` has opened, for `write_file`: a file without a name, of which a SIGKILL leaves nothing
_reserved: list[int] = []


def reserve_file(path: str) -> None:
    """Take the room for a failure file now: the disk may be full when it has to be written."""
    with contextlib.suppress(OSError):
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        try:
            fd = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o644)
        except OSError:  # such as NFS
            fd = os.open(_reserved_path(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        _reserved.append(fd)
        os.write(fd, b"\n" * PROBE_BYTES)


def write_file(path: str, outcome: Outcome) -> bool:
    """Write the failure file of an outcome that has a failure; True when it was written.

    `path` is the file (/opt/ml/output/failure). One that the user's own code wrote is kept. On a full disk it is cut to
    what was reserved. A file that cannot be written is no error here: stderr says so, and the exit code is the same.
    """
    fd = _reserved.pop() if _reserved else -1
    try:
        if outcome.failure is None or (os.path.exists(path) and os.path.getsize(path) > 0):
            return False
        if fd < 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(_reserved_path(path), os.O_WRONLY | os.O_CREAT, 0o644)
        text = as_file_text(outcome.failure).encode("utf-8", "backslashreplace")
        size = os.pwrite(fd, text[:PROBE_BYTES], 0)
        os.ftruncate(fd, size)
        with contextlib.suppress(OSError):
            os.pwrite(fd, text[size:], size)
        _give_name(fd, path)
    except OSError as error:
        print(f"dlc: {path} cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        return False
    else:
        return True
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(_reserved_path(path))


def _give_name(fd: int, path: str) -> None:
    """Let the reserved file be the failure file."""
    if os.fstat(fd).st_nlink == 0:
        with contextlib.suppress(OSError):
            os.unlink(_reserved_path(path))
        # With a directory's descriptor Python follows the link; an absolute path has no use for it otherwise
        os.link(f"/proc/self/fd/{fd}", _reserved_path(path), src_dir_fd=fd)
    os.replace(_reserved_path(path), path)


def as_stopped(outcome: Outcome, exit_code: int, host: str) -> Outcome:
    """Give a run whose state was saved after a stop its own 0, or the exit code that the user wants for it."""
    if not exit_code:
        return outcome
    cause = f"stopped on request, and every process on {host} ended with 0 (DLC_STOPPED_EXIT_CODE={exit_code})"
    return outcome._replace(exit_code=exit_code, failure=Failure(cause, host=host, exit_code=exit_code))


def check_disk(outcome: Outcome, folders: tuple[str, ...], host: str = "") -> Outcome:
    """Turn a success into a failure if a folder of results (/opt/ml/model, /opt/ml/output) has no room left.

    Libraries swallow ENOSPC, and a truncated model would be uploaded as a good one. A folder that is not there is left
    out. A failed outcome is kept, with the full disk added to its cause.
    """
    full = [folder for folder in folders if os.path.isdir(folder) and _is_full(folder)]
    if not full:
        return outcome
    words = f"no space left on {' and '.join(full)}"
    print(f"dlc: {words}", file=sys.stderr, flush=True)
    if outcome.exit_code != 0 and outcome.failure:
        return outcome._replace(failure=outcome.failure._replace(cause=f"{outcome.failure.cause}; {words}"))
    cause = f"{words}: what was saved there may be cut short. Free space or ask for a larger volume"
    return outcome._replace(exit_code=DISK_FULL, failure=Failure(cause, host=host, exit_code=DISK_FULL))


def _is_full(folder: str) -> bool:
    """Try to write one block: quotas and overlay mounts make free-space figures unreliable."""
    probe = os.path.join(folder, f".dlc-space-{os.getpid()}")
    try:
        with open(probe, "wb", buffering=0) as file:
            written = file.write(b"\1" * PROBE_BYTES)
            os.fsync(file.fileno())
            return written < PROBE_BYTES
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)


def _without_control(failure: Failure) -> Failure:
    """Escape characters that end a text for a reader in C, or that no API passes on: NUL, colours."""
    return failure._replace(
        cause=_escape(failure.cause),
        last_lines=tuple(map(_escape, failure.last_lines)),
        error=tuple(map(_escape, failure.error)),
        details=_escape(failure.details),
    )


def _escape(text: str) -> str:
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _shorten_failure(failure: Failure, head: str) -> tuple[str, str]:
    """Return the head with what tells most, and the lines without noise, of lines that do not fit."""
    # Only long reports need it
    from launch.supervision import failure_cause

    told = failure.error or failure_cause.error_lines(failure.last_lines)
    head = "\n".join([head, *told])[: REASON_LENGTH - REASON_LENGTH // 8]
    return head, "\n".join(failure_cause.without_noise(failure.last_lines))


def _reserved_path(path: str) -> str:
    return f"{os.path.dirname(path)}/.dlc-failure"
