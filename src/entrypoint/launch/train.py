"""Runs one job on this host: joins the hosts, puts the code in place, installs, supervises the processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys

from launch import signals
from launch.base import files, process_spec
from launch.base.errors import CANNOT_CREATE, Failure, LaunchError, Outcome
from launch.base.paths import RANK_FOLDER, Paths
from launch.base.process_spec import Launch, ProcessSpec
from launch.base.settings import read_choice, read_count, read_exit_code, read_seconds
from launch.discovery import own_name
from launch.job import entry_point, source
from launch.job.source import S3, Source
from launch.plan import install
from launch.plan.host_plan import find_warnings, make_host_plan, variables_passed_on
from launch.plan.request import Request, job_python, read_request, with_own_interface
from launch.preflight import host_checks
from launch.supervision import failure_report
from launch.supervision.settings import (
    END_GRACE_SECONDS,
    Settings,
    assumed_grace,
    found_checkpoints,
    stop_limits,
)
from launch.supervision.supervisor import supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launch.coordination.member import Member


def train(environ: Mapping[str, str], extra: Sequence[str]) -> int:
    """Run the job, with `extra` arguments for the script; the exit code of the user's own code if it has one.

    Raises LaunchError before anything starts.
    """
    # A config file may be a FIFO, or on a mount that hangs
    with signals.Interrupting():
        request = with_own_interface(read_request(environ, extra))
    settings = _run_settings(request)
    paths = request.paths
    for folder in (paths.model, paths.output_data, paths.code):
        _make_folder(folder)
    if request.records_collectives:
        _make_folder(paths.launcher)
    failure_report.reserve_file(paths.failure)
    if request.devices.num_gpus:
        # Of no use without GPUs
        from launch.preflight import gpus

        described = gpus.describe_gpus(request)
        _print_lines(described.lines() if described else ())
    _print_lines(found_checkpoints(paths.checkpoints))
    _print_lines(filter(None, [_mend_own_name(request)]))
    if request.members:
        # A host alone has no use for it
        from launch.multi_host import run_in_group

        outcome = run_in_group(request, settings, _run_part)
    else:
        found = host_checks.check_host(
            request.devices, request.cluster, environ, is_distributed=request.strategy is not None
        )
        _print_lines(f"preflight: {finding}" for finding in (*found, *own_name.describe_trouble()))
        host_checks.refuse_errors(found, environ)
        outcome = _run_part(request, settings)
    if outcome.exit_code == 0 and not outcome.stopped:
        _mark_success(paths.success)
        warnings = [] if request.strategy else find_warnings(request.cluster, request.job, environ)
        _print_lines(f"{what}: {why}" for what, why in warnings)
    return outcome.exit_code


def forget_earlier_run(paths: Paths) -> None:
    """Remove how an earlier run ended, if a container or a folder is used again."""
    for path in (paths.failure, paths.success):
        _remove_file(path)


def _mend_own_name(request: Request) -> str:
    """Let this host's own names resolve if they do not and the launcher may; return what was done, if anything."""
    alone = len(request.cluster.hosts) == 1
    named = alone and not request.cluster.is_nameless
    own = [own_name.get_own_name(), *([request.cluster.current_host] if named else [])]
    lost = own_name.find_unlisted(own) if own_name.may_list_names() else []
    address = own_name.LOOPBACK
    if lost and not alone:
        # A host alone has no use for it
        from launch.discovery import host_addresses

        cluster = request.cluster
        address = next(iter(host_addresses.own_addresses(cluster.current_host, cluster.network_interface)), "")
    if not lost or not address:
        return ""
    own_name.list_names(lost, address)
    return f"/etc/hosts did not have {' and '.join(lost)}, by which this host is called; it has {address} for it"


def _with_hint(outcome: Outcome, request: Request, env: Mapping[str, str]) -> Outcome:
    """Add what to do about it if many scripts fail like that. `env` is that of the processes."""
    if not outcome.failure:
        return outcome
    # Compiles expressions, which a job that succeeds has no use for
    from launch.job.failure_hints import find_hint

    lines = (*outcome.failure.error, *outcome.failure.last_lines)
    known = (row.find_advice(lines, env) for row in request.frameworks)
    advice = next(filter(None, known), "") or find_hint(lines, request.job.dialect)
    if not advice:
        return outcome
    _print_lines([advice])
    return outcome._replace(failure=outcome.failure._replace(cause=f"{outcome.failure.cause}: {advice}"))


def _run_settings(request: Request) -> Settings:
    environ = request.environ
    limits = stop_limits(environ)
    end_grace = END_GRACE_SECONDS if request.row.end_grace is None else request.row.end_grace
    return Settings(
        host=request.cluster.current_host,
        stop_grace=limits.stop,
        stop_margin=limits.margin,
        end_grace=read_seconds(environ, "DLC_END_GRACE", end_grace),
        hang_timeout=read_seconds(environ, "DLC_HANG_TIMEOUT", 0.0),
        log_folder=request.paths.launcher if read_choice(environ, "DLC_LOGS") else "",
        rank_folder=f"{request.run_dir}/{RANK_FOLDER}" if request.strategy else "",
        steps_folder=request.steps_folder,
        progress_folder=request.paths.launcher if request.leads else "",
        starters=request.row.starters,
    )


def _run_part(request: Request, settings: Settings, group: Member | None = None) -> Outcome:
    """Run this host's part, and write its failure file before the goodbye to the other hosts."""
    paths = request.paths
    try:
        outcome, env = _prepare_and_run(request, settings, group)
    except (LaunchError, signals.StopRequested) as error:
        failure_report.write_file(
            paths.failure, Outcome(error.exit_code, Failure(str(error), exit_code=error.exit_code))
        )
        raise
    if group and not (outcome.stopped or signals.received() or group.stopping_host):
        outcome = group.explain(outcome)
    if outcome.left_running:
        # Most scripts leave nothing
        from launch.supervision import left_behind

        outcome = left_behind.judge_end(outcome, (paths.model, paths.output_data, paths.checkpoints), settings.host)
    outcome = failure_report.check_disk(outcome, (paths.model, paths.output, paths.checkpoints), settings.host)
    if outcome.stopped and outcome.exit_code == 0:
        outcome = failure_report.as_stopped(
            outcome, read_exit_code(request.environ, "DLC_STOPPED_EXIT_CODE"), settings.host
        )
    outcome = _with_hint(outcome, request, env)
    failure_report.write_file(paths.failure, outcome)
    return outcome


def _prepare_and_run(request: Request, settings: Settings, group: Member | None) -> tuple[Outcome, Mapping[str, str]]:
    """Go from the user's code to the end of this host's part; return its processes' environment too, if any ran."""
    getting_ready = settings._replace(more_follows=True, hang_timeout=0.0)
    code = source.locate_code(request.job, request.paths)
    outcome = _fetch_code(code, request, getting_ready)
    if outcome.exit_code or outcome.stopped:
        return outcome, {}
    plan = make_host_plan(request)
    plan.check_programs(request.paths.code)
    entry_point.make_executable(plan.context.entry, request.paths.code)
    _print_lines(f"{what} ({why})" for what, why in (code.decision, *plan.launch.decisions))
    _print_lines(filter(None, [assumed_grace(request.environ)]))
    signals.raise_if_stopped()
    install.make_own_folders(plan.context)
    for path, content in plan.launch.files.items():
        files.make_private_folder(os.path.dirname(path))
        files.write_private_file(path, content)
    try:
        for process in plan.install:
            outcome = supervise([process], getting_ready)
            if outcome.exit_code or outcome.stopped:
                return outcome, {}
        return _run_processes(request, plan.launch, settings, group), plan.context.env
    finally:
        # They hold secrets, and the script may have emptied /tmp
        for path in plan.launch.files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _run_processes(request: Request, launch: Launch, settings: Settings, group: Member | None) -> Outcome:
    """Run the job's processes, on all hosts at once, and again after a failure while DLC_MAX_RESTARTS allows it."""
    # An elastic job's starter restarts its ranks
    restarts = 0 if request.environ.get("DLC_ELASTIC") else read_count(request.environ, "DLC_MAX_RESTARTS", 0)
    for number in itertools.count(1):
        outcome = _attempt(request, launch, settings, group)
        again = group.await_restart() if group else number <= restarts and outcome.exit_code and not signals.received()
        if not again:
            return outcome
        # Its processes may have written it
        _remove_file(request.paths.failure)
        _print_lines([f"starting again, {number} of {restarts} (DLC_MAX_RESTARTS): {outcome.cause}"])
    raise AssertionError("the loop has no other end")


def _attempt(request: Request, launch: Launch, settings: Settings, group: Member | None) -> Outcome:
    """Start, with all hosts, and run to the end; after a failure that others take over from, to the job's end."""
    if group:
        # A host alone has no use for it
        from launch.coordination import rendezvous

        ended = rendezvous.wait_until_ready(group)
        if ended:
            return ended
    for process in launch.before:
        outcome = supervise([process], settings._replace(more_follows=True, hang_timeout=0.0))
        if outcome.exit_code:
            break
    else:
        outcome = supervise(launch.processes, settings)
    if not (group and outcome.failure):
        return outcome
    at_last = rendezvous.await_end(group, outcome)
    if not at_last.failure:
        # Processes may have written it
        _remove_file(request.paths.failure)
    return at_last


def _fetch_code(code: Source, request: Request, settings: Settings) -> Outcome:
    """Put the code in place; a download is a process of its own, so that a stop request ends it."""
    download = ""
    if code.kind == S3:
        download = f"{request.paths.base}/.{source.ARCHIVE_NAME}"
        argv = (job_python(request.environ), process_spec.program_path("s3_download"), code.location, download)
        env = variables_passed_on(request.environ)
        outcome = supervise([ProcessSpec(argv, env, request.paths.base, "download", 0)], settings)
        if outcome.exit_code or outcome.stopped:
            return outcome
    try:
        _print_lines(source.put_code_in_place(code, request.paths, download))
    finally:
        if download:
            os.unlink(download)
    return Outcome(0)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"dlc: {line}", file=sys.stderr, flush=True)


def _mark_success(path: str) -> None:
    # Tools around SageMaker look for it
    try:
        with open(path, "w", encoding="ascii"):
            pass
    except OSError:
        _print_lines([f"{path} cannot be written"])


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        # A read-only file system says so of missing files, too
        if os.path.lexists(path):
            _print_lines([f"{path} is of an earlier run and cannot be removed: {error.strerror}"])


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE, "cannot be created", where=folder, expected="a writable folder",
            found=os.strerror(error.errno or 0),
        ) from error  # fmt: skip
