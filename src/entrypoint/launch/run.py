"""Runs a job on this host: code in place, requirements installed, peers there, processes supervised to their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from launch import entry_point, failure, interpretation, programs, signals, source, supervise
from launch.errors import CANNOT_CREATE, LaunchError
from launch.install import installation
from launch.interpretation import Interpretation, Request
from launch.outcome import Outcome
from launch.paths import Paths
from launch.process_spec import ProcessSpec
from launch.source import S3, Source


def train(environ: Mapping[str, str]) -> int:
    """Run the job; the exit code of the user's own code where it has one. Raises LaunchError before anything starts."""
    request = interpretation.read(environ)
    _make_folders(request.paths)
    settings = supervise.Settings(host=request.cluster.current_host)
    outcome = _run(request, settings)
    outcome = failure.check_disk(outcome, (request.paths.model, request.paths.output), request.cluster.current_host)
    failure.write(request.paths.failure, outcome)
    return outcome.exit_code


def _run(request: Request, settings: supervise.Settings) -> Outcome:
    code = source.locate(request.job, request.paths)
    outcome = _fetch(code, request, settings)
    if outcome.exit_code:
        return outcome
    plan = interpretation.decide(request)
    entry_point.check(plan.context.entry, request.paths.code)
    _say(f"{what} ({why})" for what, why in (code.decision, *plan.launch.decisions))
    signals.check()
    setup = installation(plan.context)
    if setup is not None:
        outcome = supervise.run([setup], settings)
        if outcome.exit_code:
            return outcome
    return _run_group(plan, settings)


def _fetch(code: Source, request: Request, settings: supervise.Settings) -> Outcome:
    """Put the code in place; a download is a process of its own, so that a stop request ends it."""
    download = ""
    if code.kind == S3:
        download = f"{request.paths.base}/.{source.ARCHIVE_NAME}"
        argv = (interpretation.python(request.environ), programs.path("s3_download"), code.location, download)
        outcome = supervise.run([ProcessSpec(argv, request.environ, request.paths.base, "download", 0)], settings)
        if outcome.exit_code:
            return outcome
    try:
        _say(source.put_in_place(code, request.paths, download))
    finally:
        if download:
            os.unlink(download)
    return Outcome(0)


def _run_group(plan: Interpretation, settings: supervise.Settings) -> Outcome:
    _wait_for_peers(plan.request)
    return supervise.run(plan.launch.processes, settings)


def _wait_for_peers(request: Request) -> None:
    # A host that talks to nobody waits for nobody; SageMaker Studio's local mode has no name resolution at all.
    if len(request.cluster.hosts) > 1 and request.environ.get("SM_STUDIO_LOCAL_MODE", "").lower() != "true":
        from launch import peers  # a host alone has no use for the socket module

        peers.wait(request.cluster.hosts)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"dlc: {line}", file=sys.stderr, flush=True)


def _make_folders(paths: Paths) -> None:
    for folder in (paths.model, paths.output_data, paths.output_intermediate, paths.code):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise LaunchError(
                CANNOT_CREATE,
                "cannot be created",
                where=folder,
                expected="a writable folder",
                found=os.strerror(error.errno or 0),
            ) from error
