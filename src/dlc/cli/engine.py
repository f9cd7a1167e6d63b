"""`dlc engine`: shows which Docker engine dlc uses; starts, stops and removes the private one."""

from __future__ import annotations

import argparse
import shlex

from dlc.cli.shared.arguments import add_json, ask_to_remove, print_json, print_text
from dlc.core.environment import engine_folder
from dlc.core.errors import EngineError, UsageError
from dlc.engine import removal
from dlc.engine.connection import absence_error, advise_start, connect, find_engine
from dlc.engine.docker_client import Engine
from dlc.engine.private_engine import PrivateEngine
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
    """Add the action, --json, --force, --yes."""
    parser.description = f"{HELP}\n\n{ACTIONS}"
    parser.add_argument(
        "action", choices=("status", "start", "stop", "env", "remove"), nargs="?", default="status", metavar="ACTION"
    )
    parser.add_argument("--force", action="store_true", help="with stop and remove: end running builds and containers")
    parser.add_argument("--yes", action="store_true", help="with remove: do not ask for confirmation")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out the action. `stop` and `remove` touch only an engine that dlc started itself."""
    actions = {
        "status": _print_status,
        "start": _start_engine,
        "stop": _stop_engine,
        "env": _print_env,
        "remove": _remove_engine,
    }
    return actions[args.action](args)


def _print_status(args: argparse.Namespace) -> int:
    """Print the status. An engine that does not answer gives the exit code of engine errors, with --json too."""
    try:
        engine, error = find_engine(), None
    except EngineError as failure:
        engine, error = None, failure
    problem = error.message if error else None if engine else absence_error()
    if args.json:
        print_json(_engine_as_json(engine, problem))
    elif error:
        raise error
    elif engine:
        _print_engine(engine)
    else:
        print_text(f"{problem}; {advise_start()}")
    return error.exit_code if error else 0


def _start_engine(args: argparse.Namespace) -> int:
    engine = connect()
    if args.json:
        print_json(_engine_as_json(engine, None))
    else:
        _print_engine(engine)
    return 0


def _stop_engine(args: argparse.Namespace) -> int:
    private = PrivateEngine(engine_folder())
    stopped = private.stop(args.force)
    if args.json:
        print_json({"stopped": stopped, "host": private.address})
    else:
        print(f"stopped {private.address}" if stopped else "the private engine was not running")
    return 0


def _print_env(args: argparse.Namespace) -> int:
    """Print the variable for a shell; nothing if plain docker commands reach the engine already."""
    engine = find_engine(ASK_SECONDS)
    if engine is None:
        raise EngineError(absence_error(), advise_start())
    if args.json:
        print_json(engine.environment)
    else:
        for name, value in engine.environment.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _remove_engine(args: argparse.Namespace) -> int:
    found = removal.plan_removal()
    if args.json and not args.yes:
        raise UsageError("dlc engine remove --json: expected --yes, because it cannot ask", "add --yes")
    lines = [*(f"folder or file: {path}" for path in found.paths), *(f"package: {name}" for name in found.packages)]
    if not args.json:
        print("\n".join(["to remove:", *(f"  {line}" for line in lines)]) if lines else "nothing to remove")
        for line in found.kept:
            print(f"stays: {line}")
    if lines and not args.yes:
        ask_to_remove("dlc engine remove")
    removal.remove_all(found, args.force)
    if args.json:
        print_json({"paths": [str(path) for path in found.paths], "packages": found.packages, "kept": found.kept})
    elif lines:
        print("removed")
    return 0


def _print_engine(engine: Engine) -> None:
    name = "podman" if engine.is_podman else "Docker Engine"
    print(f"{name} {engine.version} ({engine.origin}) {engine.address or ''}".rstrip())


def _engine_as_json(engine: Engine | None, problem: str | None) -> dict[str, object]:
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
