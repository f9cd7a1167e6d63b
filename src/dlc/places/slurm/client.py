"""Runs Slurm's own programs: sbatch, squeue, scontrol, sacct, scancel."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from dlc.core.atomic_files import report_disk_errors
from dlc.core.errors import DlcError, HostError, ProcessError, ProcessTimeoutError, UsageError
from dlc.core.process import Completed, run_program
from dlc.job.code_files import RESULTS, copy_code
from dlc.job.job_spec import JobSpec
from dlc.places.place import Document, ListedJob, say_asked
from dlc.places.records import find_record
from dlc.places.slurm import options as own
from dlc.places.slurm.ends import (
    COMPLETED,
    ENDED,
    FAILED,
    NO_REASON,
    PENDING,
    End,
    explain_waiting,
    find_code,
    list_ends,
    read_fields,
)
from dlc.places.slurm.script import LOG

POLL_SECONDS = 0.5
# For a controller that does not answer.
CONTROLLER_SECONDS = 300.0
# What squeue and scontrol say of a job that they know no more.
GONE = "Invalid job id"
FIELDS = "%i|%j|%T|%S|%D|%r"
# The first lines of what sbatch says -> what to do about it.
REMEDIES = {
    "invalid partition": "`sinfo` lists partitions; --with partition=NAME",
    "Invalid account": "`sacctmgr show associations user=$USER` lists accounts; --with account=NAME",
    "Invalid qos": "`sacctmgr show qos` lists them; --with qos=NAME",
    "node configuration is not available": "fewer CPUs, GPUs or memory for a host; `sinfo -Nel` lists what nodes have",
    "violates accounting": "fewer hosts, a shorter time, or another qos; `sacctmgr show qos` lists the limits",
    "Unable to contact slurm": "the controller does not answer: `scontrol ping`",
}
SUBMIT_REMEDY = "`dlc submit --dry-run` prints the file that sbatch was given"


def submit_job(job: JobSpec, options: own.OPTIONS, document: Document, secrets: Mapping[str, str]) -> str:
    """Write the job's folder and call sbatch, which hands the secrets on in the job's environment; return the id."""
    folder = own.find_folder(job, options)
    with report_disk_errors(folder, ""):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise DlcError(
                f"{folder}: expected a folder without the results of another job, found one", "--name, or --output"
            ) from None
        try:
            copy_code(job.code, folder / "code", folder)
            path = folder / document.name
            path.write_text(document.text)
            try:
                done = _call(["sbatch", "--parsable", str(path)], env=secrets)
            except (KeyboardInterrupt, ProcessTimeoutError):
                _cancel_unknown(path)
                raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent.name == RESULTS:
                # Other jobs may be in it.
                with suppress(OSError):
                    folder.parent.rmdir()
            raise
    # With several clusters their name follows.
    return done.stdout.strip().splitlines()[-1].partition(";")[0]


def _cancel_unknown(path: Path) -> None:
    """Cancel what the controller has of this file already: sbatch was ended before it said so, and the folder goes."""
    try:
        rows = _call(["squeue", "--me", "--noheader", "--format", "%i|%o"]).stdout.splitlines()
        for number in [row.partition("|")[0] for row in rows if row.partition("|")[2].strip() == str(path)]:
            _call(["scancel", number])
    except DlcError as error:
        print(f"dlc: warning: the job may be queued: {error.message}; squeue --me", file=sys.stderr)


def list_jobs(options: own.OPTIONS) -> list[ListedJob]:
    """Return the caller's jobs that wait or run."""
    rows = _call(["squeue", "--me", "--noheader", "--format", FIELDS]).stdout.splitlines()
    fields = [row.split("|", FIELDS.count("|")) for row in rows if row.count("|") >= FIELDS.count("|")]
    return [
        ListedJob(number, name, f"{state}: {reason}" if state == PENDING and reason not in NO_REASON else state,
                  _known(since), nodes)
        for number, name, state, since, nodes, reason in fields
    ]  # fmt: skip


def _known(word: str) -> str:
    return "" if word in ("N/A", "Unknown") else word


def print_logs(job_id: str, options: own.OPTIONS, out: TextIO, *, follow: bool) -> None:
    """Print the job's log; with `follow` until the job has ended, and why it waits."""
    path = _find_log(job_id, options)
    place = 0
    told: set[str] = set()
    while True:
        is_over = not follow or _has_ended(job_id, told)
        place = _print_from(path, place, out)
        if is_over:
            return
        time.sleep(POLL_SECONDS)


def _print_from(path: Path, place: int, out: TextIO) -> int:
    """Print what follows the place; return the new one."""
    if not path.is_file():
        return place
    with path.open("rb") as file:
        file.seek(place)
        found = file.read()
    out.write(found.decode(errors="replace"))
    out.flush()
    return place + len(found)


def _find_log(job_id: str, options: own.OPTIONS) -> Path:
    """Return the log of a job that this machine submitted, or else the one that the controller names."""
    if record := find_record(job_id, "slurm"):
        return (Path(options.folder, record.name) if options.folder else Path(record.folder)) / LOG
    shown = _show(job_id)
    told = read_fields(shown.stdout.partition("\n")[0]).get("StdOut", "") if shown.returncode == 0 else ""
    if not told:
        raise UsageError(f"{job_id}: expected a job of Slurm with a log, found none", "dlc ps --to slurm")
    return Path(told)


def wait_for_job(job_id: str, options: own.OPTIONS) -> int:
    """Return 0 if all of the job ended well, else its exit code; Slurm's word for another end goes to stderr."""
    told: set[str] = set()
    deadline = time.monotonic() + CONTROLLER_SECONDS
    ends: list[End] = []
    while not ends:
        if not _has_ended(job_id, told):
            deadline = time.monotonic() + CONTROLLER_SECONDS
        elif not (ends := _read_ends(job_id)) and time.monotonic() > deadline:
            remedy = f"`scontrol show job {job_id}` or `sacct -j {job_id}` may tell"
            raise DlcError(f"{job_id}: expected how the job has ended, found no word of it", remedy)
        if not ends:
            time.sleep(POLL_SECONDS)
    for line in dict.fromkeys(end.describe() for end in ends if end.state not in (COMPLETED, FAILED)):
        print(f"dlc: {job_id}: {line}", file=sys.stderr)
    return find_code(ends)


def stop_job(job_id: str, options: own.OPTIONS) -> str:
    """Cancel the job; Slurm sends SIGTERM, and SIGKILL after its KillWait."""
    _call(["scancel", job_id])
    return say_asked(job_id)


def _has_ended(job_id: str, told: set[str]) -> bool:
    """Tell whether no component of the job waits, runs or ends any more. Why it waits goes to stderr, once each.

    The job goes on while its controller is restarted or busy, so nobody who waits for it is sent away at once.
    """
    deadline = time.monotonic() + CONTROLLER_SECONDS
    while True:
        done = _call(["squeue", "--noheader", "--jobs", job_id, "--states=all", "--format", "%T|%r"], check=False)
        if done.returncode == 0 or GONE in done.stderr:
            rows = [row.strip().partition("|") for row in done.stdout.splitlines() if row.strip()]
            for why in (explain_waiting(reason) for state, _, reason in rows if state == PENDING):
                if why and why not in told:
                    told.add(why)
                    print(f"dlc: {job_id} waits: {why}", file=sys.stderr, flush=True)
            return all(state in ENDED for state, _, _ in rows)
        if time.monotonic() > deadline:
            raise _explain(done)
        time.sleep(POLL_SECONDS)


def _show(job_id: str) -> Completed:
    """Ask what the controller still knows of each component of a job: nothing some minutes after its end."""
    return _call(["scontrol", "show", "--oneliner", "job", job_id], check=False)


def _read_ends(job_id: str) -> list[End]:
    """Return how each component of a job has ended: by the controller, or later by the accounts.

    Return nothing if a component goes on, or the controller is busy. Raises DlcError if nobody knows the job's end.
    """
    shown = _show(job_id)
    if shown.returncode == 0 and (ends := list_ends(map(read_fields, shown.stdout.splitlines()))):
        return ends
    is_gone = bool(shown.returncode) and GONE in shown.stderr
    words = ["--noheader", "--parsable2", "--allocations", "--format", "State,ExitCode", "-j", job_id]
    told = _call(["sacct", *words], check=is_gone)
    rows = [row.partition("|") for row in told.stdout.splitlines() if row.strip()]
    ends = list_ends({"JobState": state, "ExitCode": code} for state, _, code in rows)
    if is_gone and not ends:
        found = ", ".join("|".join(row) for row in rows) or "none"
        raise DlcError(f"{job_id}: expected state and exit code of a job that has ended, found {found}")
    return ends


def _call(words: Sequence[str], *, env: Mapping[str, str] | None = None, check: bool = True) -> Completed:
    """Run a program of Slurm. Raises HostError without it, and what it said if it fails."""
    if shutil.which(words[0]) is None:
        raise HostError(f"{words[0]}: expected Slurm's program on PATH, found none", "run dlc on a login node")
    done = run_program(words, env=env, check=False, timeout=120)
    if check and done.returncode:
        raise _explain(done)
    return done


def _explain(done: Completed) -> ProcessError:
    """Return the error of a program of Slurm with what it said, and what to do about it."""
    said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
    remedy = next((remedy for words, remedy in REMEDIES.items() if words in said), "")
    return ProcessError(f"{done.argv[0]}: {said}", remedy or (SUBMIT_REMEDY if done.argv[0] == "sbatch" else ""))
