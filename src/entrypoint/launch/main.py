"""The launcher's verbs: run the job, explain it, or become another command."""

from __future__ import annotations

import io
import os
import signal
import sys

from launch import signals
from launch.base.compat import Unfailing
from launch.base.errors import SOFTWARE, USAGE, LaunchError
from launch.base.files import default_private_folder
from launch.base.paths import DEFAULT_VENV, Paths, stated_folder
from launch.base.settings import with_job_token
from launch.plan.host_plan import make_host_plan
from launch.plan.install import make_home
from launch.plan.request import read_request, with_own_interface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


HELP = """\
usage: docker run IMAGE train [ARGUMENT...]     run the job that /opt/ml/input/config describes; arguments: the script's
       docker run IMAGE --explain[=json]        show what `train` would start, and why; starts and writes nothing
       docker run IMAGE --preflight             check the hosts of the job against each other, and this host for traps
       docker run IMAGE COMMAND [ARGUMENT...]   run any command, with the image's Python first on PATH"""

# As in shells
NOT_FOUND = 127
NOT_EXECUTABLE = 126
# For telling the other hosts of a stop that came before the group was joined
STOP_SECONDS = 5.0


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what `argv` (without the program's name) asks; the exit code. Shows no traceback of its own."""
    sys.stderr = Unfailing(2)
    if not argv:
        print(HELP, file=sys.stderr)
        return USAGE
    paths = Paths.of(environ)
    verb = argv[0]
    try:
        if verb in ("--help", "-h"):
            print(HELP)
            return 0
        if verb in ("--explain", "--explain=json", "--explain=text"):
            # A config file may be a FIFO, or lie on a mount that hangs
            with signals.Interrupting():
                return _explain(verb.endswith("=json"), environ, argv[2:] if argv[1:2] == ["train"] else argv[1:])
        if verb == "--preflight":
            from launch.multi_host import preflight_only

            with signals.Interrupting():
                environ = with_job_token(environ, keep=True)
                request = with_own_interface(read_request(environ))
            return preflight_only(request)
        if verb == "train":
            from launch.train import forget_earlier_run, train

            forget_earlier_run(paths)
            with signals.Interrupting():
                environ = with_job_token(environ)
            return train(environ, argv[1:])
    except (signals.StopRequested, LaunchError) as error:
        code = _report_failure(paths, str(error), error.exit_code, verb)
        if verb == "train" and not getattr(error, "told", False):
            _tell_the_others(environ, paths, error)
        return code
    except Exception as error:  # a bug of ours: say so in one line, the traceback only on request
        if environ.get("DLC_DEBUG") == "1":
            raise
        return _report_failure(paths, f"internal error: {type(error).__name__}: {error}", SOFTWARE, verb)
    return _become_command(argv, environ)


def _explain(as_json: bool, environ: Mapping[str, str], extra: Sequence[str]) -> int:
    from launch.job import source
    from launch.plan import explain
    from launch.preflight import gpus

    request = with_own_interface(read_request(environ, extra))
    found = gpus.describe_gpus(request)
    code = source.locate_code(request.job, request.paths)
    folder = code.visible_folder(request.paths)
    decided = make_host_plan(request, folder)
    if os.path.isdir(folder) and os.listdir(folder):
        decided.check_programs(folder)
    decided = decided.with_decision(code.decision)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A variable may hold bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    if as_json:
        print(explain.as_json(decided, found.as_data() if found else None))
    else:
        print(explain.as_text(decided, found.lines() if found else ()))
    return 0


def _report_failure(paths: Paths, cause: str, exit_code: int, verb: str) -> int:
    """Print one line on stderr and, in a job, write the same to the failure file."""
    print(f"dlc: {cause}", file=sys.stderr, flush=True)
    if verb == "train":
        from launch.base.errors import Failure, Outcome
        from launch.supervision import failure_report

        failure_report.write_file(paths.failure, Outcome(exit_code, Failure(cause=cause, exit_code=exit_code)))
    return exit_code


def _tell_the_others(environ: Mapping[str, str], paths: Paths, error: signals.StopRequested | LaunchError) -> None:
    """Tell the other hosts of the job, which do not know yet and would wait for this one."""
    if isinstance(error, LaunchError):
        _announce(environ, paths, error)
        return
    from threading import Thread

    telling = Thread(target=_announce, args=(environ, paths, error), daemon=True)
    telling.start()
    # What was being read when the stop came may hang once more
    telling.join(STOP_SECONDS)


def _announce(environ: Mapping[str, str], paths: Paths, error: signals.StopRequested | LaunchError) -> None:
    from launch.base.errors import Failure
    from launch.discovery import discover

    try:
        is_alone = len(discover.discover(environ, paths).hosts) < 2
    except LaunchError:  # who the others are is what went wrong
        return
    if not is_alone:
        from launch import multi_host

        multi_host.announce_failure(environ, paths, Failure(str(error), exit_code=error.exit_code))


def _become_command(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    venv = stated_folder(environ, "DLC_VENV", DEFAULT_VENV)
    env = {**environ, "PATH": f"{venv}/bin:{environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"}
    env.update(make_home(environ, stated_folder(environ, "DLC_RUN_DIR", default_private_folder())))
    # Before anything was there to hear it
    if signals.received():
        return 128 + signals.received()[0]
    try:
        _execute(argv, env)
    except FileNotFoundError:
        print(f"dlc: {argv[0]}: no such command\n{HELP}", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"dlc: {argv[0]}: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return NOT_EXECUTABLE


def _execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become the command, which gets the signals that Python ignores as every program does."""
    try:
        for signum in signals.IGNORED_BY_PYTHON:
            signal.signal(signum, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), env)
    finally:  # still here: a stderr that is gone does not end us
        for signum in signals.IGNORED_BY_PYTHON:
            signal.signal(signum, signal.SIG_IGN)
