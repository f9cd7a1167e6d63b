"""`dlc engine`: shows which Docker engine dlc uses; starts, stops and removes the private one."""

from __future__ import annotations

import argparse
import shlex
import sys

from dlc.cli.arguments import add_json, print_json
from dlc.core.environment import engine_folder
from dlc.core.errors import EngineError, UsageError
from dlc.engine import removal
from dlc.engine.connection import Engine, absence, connect, find, start_remedy
from dlc.engine.private import PrivateEngine
from dlc.engine.questions import ASK_SECONDS

HELP = "show, start, stop or remove the Docker engine that dlc uses"
EXAMPLE = "dlc engine status --json"
ACTIONS = """actions:
  status  which engine dlc uses (the default)
  start   find an engine, or install and start the private one
  stop    stop the private one; its images stay
  env     print the variable that plain docker commands need: eval "$(dlc engine env)"
  remove  stop the private one and remove all that dlc put on this host: images, cache, Debian packages"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action, --json, --force, --yes."""
    parser.description = f"{HELP}\n\n{ACTIONS}"
    parser.add_argument(
        "action", choices=("status", "start", "stop", "env", "remove"), nargs="?", default="status", metavar="ACTION"
    )
    parser.add_argument("--force", action="store_true", help="with stop and remove: end running builds and containers")
    parser.add_argument("--yes", action="store_true", help="with remove: do not ask for confirmation")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """`stop` and `remove` touch only an engine that dlc started itself."""
    actions = {"status": _status, "start": _start, "stop": _stop, "env": _env, "remove": _remove}
    return actions[args.action](args)


def _status(args: argparse.Namespace) -> int:
    """An engine that does not answer gives the exit code of engine errors, with --json too."""
    try:
        engine, error = find(), None
    except EngineError as failure:
        engine, error = None, failure
    problem = error.message if error else None if engine else absence()
    if args.json:
        print_json(_as_json(engine, problem))
    elif error:
        raise error
    elif engine:
        _show(engine)
    else:
        print(f"{problem}; {start_remedy()}")
    return error.exit_code if error else 0


def _start(args: argparse.Namespace) -> int:
    engine = connect()
    if args.json:
        print_json(_as_json(engine, None))
    else:
        _show(engine)
    return 0


def _stop(args: argparse.Namespace) -> int:
    private = PrivateEngine(engine_folder())
    stopped = private.stop(args.force)
    if args.json:
        print_json({"stopped": stopped, "host": private.address})
    else:
        print(f"stopped {private.address}" if stopped else "the private engine was not running")
    return 0


def _env(args: argparse.Namespace) -> int:
    """Nothing is printed where plain docker commands reach the engine already."""
    engine = find(ASK_SECONDS)
    if engine is None:
        raise EngineError(absence(), start_remedy())
    if args.json:
        print_json(engine.environment)
    else:
        for name, value in engine.environment.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    found = removal.plan()
    if args.json and not args.yes:
        raise UsageError("dlc engine remove --json: expected --yes, because it cannot ask", "add --yes")
    lines = [*(f"folder or file: {path}" for path in found.paths), *(f"package: {name}" for name in found.packages)]
    if not args.json:
        print("\n".join(["to remove:", *(f"  {line}" for line in lines)]) if lines else "nothing to remove")
        for line in found.kept:
            print(f"stays: {line}")
    if lines and not args.yes:
        _ask()
    removal.carry_out(found, args.force)
    if args.json:
        print_json({"paths": [str(path) for path in found.paths], "packages": found.packages, "kept": found.kept})
    elif lines:
        print("removed")
    return 0


def _ask() -> None:
    """Raises UsageError for any answer but yes, and where nobody can be asked."""
    if not sys.stdin.isatty():
        raise UsageError("dlc engine remove: stdin is no terminal, so it cannot ask", "add --yes")
    print("remove all of this? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was removed")


def _show(engine: Engine) -> None:
    print(f"Docker Engine {engine.version} ({engine.origin}) {engine.address or ''}".rstrip())


def _as_json(engine: Engine | None, problem: str | None) -> dict[str, object]:
    return {
        "running": engine is not None,
        "origin": engine.origin if engine else None,
        "host": engine.address if engine else None,
        "version": engine.version if engine else None,
        "platform": engine.platform if engine else None,
        "containerd_store": engine.containerd_store if engine else None,
        "folder": str(engine_folder()),
        "problem": problem,
    }
