"""`dlc clean`: removes folders of ended jobs, images that --set made, images of killed rebuilds; shows them first."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dlc.cli.shared.arguments import add_json, ask_to_remove, print_json, print_text, show_step
from dlc.core.errors import EngineError, ProcessError
from dlc.core.labels import KEY
from dlc.engine.connection import find_running_engine
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ask_engine
from dlc.inspection.reproducible import REPOSITORY as REBUILDS
from dlc.job.code_files import RESULTS
from dlc.places.local.claims import claims_folder
from dlc.places.local.known_jobs import read_claims
from dlc.places.local.remains import Remains, find_remains, remove_remains
from dlc.places.records import list_open_folders

HELP = "remove folders of ended jobs here, images that --set made, images of killed rebuilds; shows them first"
EXAMPLE = "dlc clean --jobs --yes"
OF_SET = re.compile(r"-set-[0-9a-f]+$")
# No `dlc verify-reproducible` runs longer: an image of one that was named before this was left behind.
LONGEST_REBUILD = timedelta(days=1)
# What an engine says that does not know when an image was named.
UNKNOWN = datetime.min.replace(tzinfo=UTC)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --jobs or --images, --yes, --json."""
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--jobs", action="store_true", help=f"only folders of jobs, in {RESULTS} of this folder")
    only.add_argument("--images", action="store_true", help="only images of the engine")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show what would be removed, ask, and remove it."""
    results = Path.cwd() / RESULTS
    running = {job.folder for job in read_claims(claims_folder())} | list_open_folders()
    folders = [] if args.images else find_remains(results, running)
    engine = None if args.jobs else _find_engine(needed=args.images)
    images = find_leftovers(engine) if engine else []
    if args.json:
        print_json({"folders": [{"path": str(each.folder), "bytes": each.bytes} for each in folders], "images": images})
    else:
        print_text(as_text(folders, images))
    if not (folders or images) or (args.json and not args.yes):
        return 0
    if not args.yes:
        ask_to_remove("dlc clean")
    with show_step("dlc clean", f"removes {len(folders)} folders and {len(images)} images"):
        remove_remains(folders, results)
        if engine and images:
            engine.docker("image", "rm", *images)
    return 0


def _find_engine(*, needed: bool) -> Engine | None:
    """Return the engine; without one that answers there are folders all the same, unless only images are wanted."""
    try:
        return find_running_engine()
    except (EngineError, ProcessError) as error:
        if needed:
            raise
        print(f"dlc: nothing is known of images: {error}", file=sys.stderr)
        return None


def find_leftovers(engine: Engine) -> list[str]:
    """Return the references of images that dlc built with --set, and of those that a killed rebuild left."""
    form = "{{.Repository}}:{{.Tag}}"
    refs = ask_engine(engine, "image", "ls", "--filter", f"label={KEY}", "--format", form).stdout.split()
    rebuilt = [ref for ref in refs if ref.startswith(f"{REBUILDS}:")]
    left: set[str] = set()
    if rebuilt:
        # An image that its rebuild has removed meanwhile has no line.
        form = "{{range .RepoTags}}{{.}} {{end}}{{json .Metadata.LastTagTime}}"
        named = ask_engine(engine, "image", "inspect", "--format", form, *rebuilt).stdout
        left = choose_left(named.splitlines(), datetime.now(UTC))
    return sorted([*(ref for ref in refs if OF_SET.search(ref)), *left])


def choose_left(lines: Iterable[str], now: datetime) -> set[str]:
    """Return the references of rebuilds that were named longer ago than one runs; pure.

    `lines` are of images: all references of one, and when the last of them was given, in JSON. An image may come twice.
    """
    before = now - LONGEST_REBUILD
    rows = [(words[:-1], words[-1].strip('"')) for line in lines if (words := line.split())]
    old = [refs for refs, named in rows if UNKNOWN < datetime.fromisoformat(named) < before]
    return {ref for refs in old for ref in refs if ref.startswith(f"{REBUILDS}:")}


def as_text(folders: Sequence[Remains], images: Sequence[str]) -> str:
    """Return a line for each thing that would be removed."""
    if not (folders or images):
        return "nothing to remove"
    lines = [f"  {each.bytes / 1e6:8.1f} MB  {each.folder}" for each in folders]
    return "\n".join(["to remove:", *lines, *(f"  image        {ref}" for ref in images)])
