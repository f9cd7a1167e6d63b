"""Runs a job on this host: code in place, requirements installed, peers there, processes supervised to their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from launch import entry_point, failure, interpretation, signals, supervise
from launch.errors import CANNOT_CREATE, LaunchError
from launch.install import installation
from launch.interpretation import Interpretation, Request
from launch.outcome import Outcome
from launch.paths import Paths


def train(environ: Mapping[str, str]) -> int:
    """Run the job; the exit code of the user's own code where it has one. Raises LaunchError before anything starts."""
    request = interpretation.read(environ)
    _make_folders(request.paths)
    plan = interpretation.decide(request)
    entry_point.check(plan.context.entry, request.paths.code)
    for decision in plan.launch.decisions:
        print(f"dlc: {decision.what} ({decision.why})", file=sys.stderr)
    sys.stderr.flush()
    signals.check()
    outcome = _run(plan)
    outcome = failure.check_disk(outcome, (request.paths.model, request.paths.output), request.cluster.current_host)
    failure.write(request.paths.failure, outcome)
    return outcome.exit_code


def _run(plan: Interpretation) -> Outcome:
    settings = supervise.Settings(host=plan.request.cluster.current_host)
    setup = installation(plan.context)
    if setup is not None:
        outcome = supervise.run([setup], settings)
        if outcome.exit_code:
            return outcome
    _wait_for_peers(plan.request)
    return supervise.run(plan.launch.processes, settings)


def _wait_for_peers(request: Request) -> None:
    # A host that talks to nobody waits for nobody; SageMaker Studio's local mode has no name resolution at all.
    if len(request.cluster.hosts) > 1 and request.environ.get("SM_STUDIO_LOCAL_MODE", "").lower() != "true":
        from launch import peers  # a host alone has no use for the socket module

        peers.wait(request.cluster.hosts)


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
