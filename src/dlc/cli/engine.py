"""`dlc engine`: says which Docker engine dlc uses, starts the private one, stops it."""

from __future__ import annotations

import argparse
import json

from dlc.core.environment import engine_folder
from dlc.engine.connection import connect, find
from dlc.engine.embedded import EmbeddedEngine

HELP = "show, start or stop the Docker engine that dlc uses"
EXAMPLE = "dlc engine status --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and --json."""
    parser.add_argument("action", choices=("status", "start", "stop"), nargs="?", default="status")
    parser.add_argument("--json", action="store_true", help="print the status as JSON")


def run(args: argparse.Namespace) -> int:
    """`stop` ends only an engine that dlc started itself."""
    embedded = EmbeddedEngine(engine_folder())
    if args.action == "stop":
        print(f"stopped {embedded.host}" if embedded.stop() else "the embedded engine was not running")
        return 0
    engine = connect() if args.action == "start" else find()
    status = {
        "running": engine is not None,
        "origin": engine.origin if engine else None,
        "host": engine.host if engine else None,
        "version": engine.version if engine else None,
        "containerd_store": engine.containerd_store if engine else None,
        "folder": str(embedded.folder),
    }
    if args.json:
        print(json.dumps(status, indent=1))
    elif engine:
        print(f"Docker Engine {engine.version} ({engine.origin}) {engine.host or ''}".rstrip())
    else:
        print("no engine runs; `dlc engine start` starts a private one")
    return 0
