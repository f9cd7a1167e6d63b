"""Runs a job on this host: group joined, code in place, requirements installed, processes supervised to their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from launch import signals
from launch.base.errors import CANNOT_CREATE, LaunchError
from launch.base.outcome import Failure, Outcome
from launch.base.paths import RANK_FOLDER
from launch.base.process_spec import Launch, ProcessSpec
from launch.base.switches import exit_code, seconds
from launch.group import traps
from launch.job import arguments, entry_point, source
from launch.job.source import S3, Source
from launch.plan import interpretation, programs
from launch.plan.interpretation import Request
from launch.supervision import failure, grace
from launch.supervision import run as supervise


def train(environ: Mapping[str, str], extra: Sequence[str]) -> int:
    """Run the job, with `extra` arguments for the script; the exit code of the user's own code where it has one.

    Raises LaunchError before anything starts.
    """
    with signals.Interrupting():  # a config file may be a FIFO, or lie on a mount that hangs
        request = interpretation.read(environ, extra)
    settings = _settings(request)
    paths = request.paths
    for folder in (paths.model, paths.output_data, paths.code):
        _make_folder(folder)
    if request.records_collectives:
        _make_folder(paths.launcher)
    for path in (paths.failure, paths.success):  # an earlier run's, in a container that is started again
        _remove(path)
    failure.reserve(paths.failure)
    if request.talks_to_others:
        from launch.group.session import in_group  # a host alone has no use for sockets and threads

        outcome = in_group(request, settings, lambda joined: _part(request, joined))
    else:
        found = traps.find(request.devices, request.cluster, environ)
        _say(f"preflight: {finding}" for finding in found)
        traps.refuse(found, environ)
        outcome = _part(request, settings)
    failure.write(paths.failure, outcome)
    if outcome.exit_code == 0 and not outcome.stopped:
        _mark_success(paths.success)
    return outcome.exit_code


def _with_advice(outcome: Outcome, dialect: str) -> Outcome:
    """The outcome, which says what to do about it where the script did not take its arguments."""
    advice = outcome.failure and arguments.refused(outcome.failure.last_lines, dialect)
    if not outcome.failure or not advice:
        return outcome
    _say([advice])
    return outcome._replace(failure=outcome.failure._replace(cause=f"{outcome.failure.cause}: {advice}"))


def _settings(request: Request) -> supervise.Settings:
    environ = request.environ
    limits = grace.of(environ)
    return supervise.Settings(
        host=request.cluster.current_host,
        stop_grace=limits.stop,
        stop_margin=limits.margin,
        end_grace=seconds(environ, "DLC_END_GRACE", supervise.END_GRACE),
        hang_timeout=seconds(environ, "DLC_HANG_TIMEOUT", 0.0),
        log_folder=request.paths.launcher if environ.get("DLC_LOGS") == "1" else "",
        rank_folder=f"{request.run_dir}/{RANK_FOLDER}" if request.strategy else "",
    )


def _part(request: Request, settings: supervise.Settings) -> Outcome:
    """This host's part, with its failure file, which is written before the goodbye to the other hosts."""
    paths = request.paths
    try:
        outcome = _run(request, settings)
    except LaunchError as error:
        failure.write(paths.failure, Outcome(error.exit_code, Failure(str(error), exit_code=error.exit_code)))
        raise
    outcome = failure.check_disk(outcome, (paths.model, paths.output, paths.checkpoints), settings.host)
    if outcome.stopped and outcome.exit_code == 0:
        outcome = failure.stopped(outcome, exit_code(request.environ, "DLC_STOPPED_EXIT_CODE"), settings.host)
    outcome = _with_advice(outcome, request.job.dialect)
    failure.write(paths.failure, outcome)
    return outcome


def _run(request: Request, settings: supervise.Settings) -> Outcome:
    """From the user's code to the end of this host's part."""
    getting_ready = settings._replace(more_follows=True, hang_timeout=0.0)
    code = source.locate(request.job, request.paths)
    outcome = _fetch(code, request, getting_ready)
    if outcome.exit_code or outcome.stopped:
        return outcome
    plan = interpretation.decide(request)
    entry_point.check(plan.context.entry, request.paths.code)
    _say(f"{what} ({why})" for what, why in (code.decision, *plan.launch.decisions))
    signals.check()
    _write_private_files(plan.launch)
    try:
        for process in plan.launch.before:
            outcome = supervise.run([process], getting_ready)
            if outcome.exit_code or outcome.stopped:
                return outcome
        return supervise.run(plan.launch.processes, settings)
    finally:
        for path in plan.launch.files:  # they hold the environment, and so whatever secrets are in it
            os.unlink(path)


def _fetch(code: Source, request: Request, settings: supervise.Settings) -> Outcome:
    """Put the code in place; a download is a process of its own, so that a stop request ends it."""
    download = ""
    if code.kind == S3:
        download = f"{request.paths.base}/.{source.ARCHIVE_NAME}"
        argv = (interpretation.python(request.environ), programs.path("s3_download"), code.location, download)
        outcome = supervise.run([ProcessSpec(argv, request.environ, request.paths.base, "download", 0)], settings)
        if outcome.exit_code or outcome.stopped:
            return outcome
    try:
        _say(source.put_in_place(code, request.paths, download))
    finally:
        if download:
            os.unlink(download)
    return Outcome(0)


def _write_private_files(launch: Launch) -> None:
    for path, content in launch.files.items():
        _make_folder(os.path.dirname(path), mode=0o700)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(content)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"dlc: {line}", file=sys.stderr, flush=True)


def _mark_success(path: str) -> None:
    # The platform looks at the exit code alone; some tools around it look for the file that its toolkit leaves.
    try:
        with open(path, "w", encoding="ascii"):
            pass
    except OSError:
        _say([f"{path} cannot be written"])


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        _say([f"{path} is of an earlier run and cannot be removed: {error.strerror}"])


def _make_folder(folder: str, mode: int = 0o777) -> None:
    try:
        os.makedirs(folder, mode, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE,
            "cannot be created",
            where=folder,
            expected="a writable folder",
            found=os.strerror(error.errno or 0),
        ) from error
