"""`dlc site`: writes a static catalogue: a page for each image, the documents with a search, what was measured."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import add_globs, fill_globs, parse_path, say_progress
from dlc.core.platforms import ANY_PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree
    from dlc.engine.docker_client import Engine
    from dlc.inspection.facts import Facts
    from dlc.site.values import Built, Checks, Entry, Memory, ScanResult

HELP = "write a static catalogue: a page for each image, the documents with a search, what was measured"
EXAMPLE = "dlc site catalogue --records records"
INTERMIXED = True
# What is shown as documents, in the checkout; and the kinds of files there that they lead to.
DOCUMENTS, LINKED = ("*.md", "docs/**/*.md", "examples/**/*.md"), ("docs/**/*", "examples/**/*")
RECORDS = ("*.json", "*.xml")
ANOTHER = "name a folder that is not there yet, an empty one, or one that `dlc site` wrote"
MODE, FOLDER_MODE = 0o644, 0o755


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add DIR, GLOB, --records, --scan, --no-engine."""
    parser.add_argument("folder", metavar="DIR", type=parse_path, help="the folder to write; a site in it is replaced")
    add_globs(parser, platform=ANY_PLATFORM)
    parser.add_argument(
        "--records", metavar="DIR", type=parse_path, help="a folder of records: tests, scans, rebuilds, signatures"
    )
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--scan", action="store_true", help="scan the built images now, as `dlc scan` does")
    engine.add_argument("--no-engine", action="store_true", help="ask no engine: pages from buildspec and locks alone")


def run(args: argparse.Namespace) -> int:
    """Collect what is known, render all pages, write the folder whole or not at all."""
    import dlc
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import find_workspace, read_workspace
    from dlc.image_build.buildx import read_revision
    from dlc.site.pages import list_pages
    from dlc.site.values import Catalogue

    target = args.folder.absolute()
    memory = require_site(target)
    workspace = find_workspace()
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, platform=args.platform)
    checks = _read_records(args.records, variants)
    engine = None if args.no_engine else _find_engine()
    entries = list_entries(variants, tree, checks, memory)
    if engine:
        entries = _ask_engine(engine, entries, tree, scan=args.scan)
    documents, files = read_documents(workspace.recipes)
    found = Catalogue(
        tuple(entries), documents, files, date.today().isoformat(), read_revision(workspace.root)[0], dlc.__version__,
        engine is not None, memory,
    )  # fmt: skip
    pages = list_pages(found)
    # Looking into images takes minutes: somebody may have put a file there meanwhile.
    require_site(target)
    write_site(pages, target)
    built = sum(entry.built is not None for entry in entries)
    print(f"{args.folder / 'index.html'}  {len(pages)} files, {len(entries)} images, {built} of them built")
    return 0


def require_site(folder: Path) -> Mapping[str, Memory]:
    """Return what the site in a folder remembers.

    Raises UsageError for a folder that holds something else, or beside which no site can be written.
    """
    from dlc.core.atomic_files import report_disk_errors
    from dlc.core.errors import UsageError
    from dlc.site.pages import SIGN, read_memory

    with report_disk_errors(folder, ""):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise UsageError(f"{folder}: expected a folder, found a file or a link", ANOTHER)
        if not folder.parent.is_dir():
            raise UsageError(f"{folder.parent}: expected a folder, in which {folder.name} is made, found none", ANOTHER)
        # Looking into images takes minutes: a place that takes no files is found before.
        with open_draft(folder):
            pass
        if not folder.exists():
            return {}
        if folder.is_mount() or folder.samefile(Path.cwd()):
            raise UsageError(f"{folder}: a mount, or the current folder: it cannot be replaced in one step", ANOTHER)
        first = next(folder.iterdir(), None)
        sign = folder / SIGN
        memory = read_memory(sign.read_text(errors="replace")) if sign.is_file() else None
    if first and memory is None:
        raise UsageError(f"{folder}: expected an empty folder or a site of dlc, found {first.name} in it", ANOTHER)
    return memory or {}


def list_entries(
    variants: Sequence[Variant], tree: Tree, checks: Mapping[str, Checks], memory: Mapping[str, Memory]
) -> list[Entry]:
    """Return what buildspec, locks, records and earlier catalogues say of each image."""
    from dlc.buildspec.lockfile import explain_staleness, locked_versions
    from dlc.core.labels import LICENSES
    from dlc.plan.plan import plan_variants
    from dlc.site import values

    stale = {variant.id: explain_staleness(tree, variant) for variant in variants}
    plan = plan_variants([variant for variant in variants if not stale[variant.id]], tree)
    targets = {identifier: plan.target(identifier) for identifier in plan.selected}
    return [
        values.Entry(
            variant,
            locked_versions(tree, variant),
            _map_lock_files(tree, variant),
            stale[variant.id],
            targets[variant.id].key if variant.id in targets else "",
            targets[variant.id].labels.get(LICENSES, "") if variant.id in targets else "",
            checks=checks.get(variant.id, values.Checks()),
            memory=memory.get(variant.id, values.Memory()),
        )
        for variant in variants
    ]


def _map_lock_files(tree: Tree, variant: Variant) -> dict[str, str]:
    """Return the file of the lock that each package is in."""
    from dlc.buildspec.lockfile import ALL_FILES, parse_versions
    from dlc.core.checkout import files_below

    lock = files_below(tree, variant.lock_folder)
    texts = {file: lock[file].data.decode(errors="replace") for file in ALL_FILES if file in lock}
    return {name: file for file, text in texts.items() for name in parse_versions(text)}


def _read_records(folder: Path | None, variants: Sequence[Variant]) -> Mapping[str, Checks]:
    from dlc.core.errors import UsageError
    from dlc.site.records import Image, read_records

    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--records {folder}: expected a folder, found none", "mkdir it, or leave --records out")
    paths = [path for pattern in RECORDS for path in sorted(folder.glob(pattern))]
    texts = {str(path): path.read_text(errors="replace") for path in paths}
    return read_records(texts, [Image(variant.id, variant.ref) for variant in variants])


def _find_engine() -> Engine | None:
    """Return the engine that runs, if any. If it does not answer, print a note and go on."""
    from dlc.core.errors import EngineError
    from dlc.engine.connection import find_engine

    try:
        found = find_engine()
    except EngineError as error:
        print(f"dlc: warning: no engine is asked: {error}", file=sys.stderr)
        return None
    if found is None:
        print("dlc: no engine runs: pages are made from buildspec and locks alone", file=sys.stderr)
    return found


def _ask_engine(engine: Engine, entries: Sequence[Entry], tree: Tree, *, scan: bool) -> list[Entry]:
    """Return the entries, those of images that the engine has with what it has."""
    from dlc.engine.images import find_keys

    there = find_keys(engine, [entry.variant.ref for entry in entries])
    return [_look_into(engine, entry, tree, scan=scan) if entry.variant.ref in there else entry for entry in entries]


def _look_into(engine: Engine, entry: Entry, tree: Tree, *, scan: bool) -> Entry:
    ref = entry.variant.ref
    say_progress(f"{ref}: packages")
    built = capture_built(engine, entry.variant)
    found = replace(entry, built=built)
    if not scan:
        return found
    say_progress(f"{ref}: advisories")
    return replace(found, checks=replace(entry.checks, scan=_scan_now(engine, built.facts, tree)))


def capture_built(engine: Engine, variant: Variant) -> Built:
    """Look into a built image. Raises ImageError as `capture_facts` does."""
    from dlc.inspection import facts, gpu
    from dlc.site import values

    inspected = facts.inspect_image(engine, variant.ref)
    code = gpu.read_gpu_code(engine, variant.ref) if variant.settings.device != "cpu" else None
    tags, pushed = (tuple(sorted(inspected.get(key) or ())) for key in ("RepoTags", "RepoDigests"))
    return values.Built(facts.capture_facts(engine, variant.ref), tags, pushed, code)


def _scan_now(engine: Engine, facts: Facts, tree: Tree) -> ScanResult:
    from dlc.inspection.advisories import read_exceptions
    from dlc.inspection.scan import scan_image
    from dlc.site.values import ScanResult

    today = date.today()
    found = scan_image(engine, facts, read_exceptions(tree), os.environ, today)
    return ScanResult(today.isoformat(), facts.digest, found)


def read_documents(root: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the documents of a checkout, and other files beside them; none of a wheel's recipes."""
    paths = {path.relative_to(root).as_posix(): path for pattern in DOCUMENTS for path in root.glob(pattern)}
    others = {path.relative_to(root).as_posix(): path for pattern in LINKED for path in root.glob(pattern)}
    return (
        {name: path.read_text(encoding="utf-8", errors="replace") for name, path in sorted(paths.items())},
        {name: path.read_bytes() for name, path in others.items() if path.is_file() and name not in paths},
    )


@contextmanager
def open_draft(folder: Path) -> Iterator[Path]:
    """Make a folder for files that are to take the place of `folder`, beside it, and remove it after the block.

    Raises UsageError or DiskError for a place that takes no files.
    """
    from dlc.core.atomic_files import report_disk_errors, scratch_folder

    with report_disk_errors(folder.parent, ""), scratch_folder(f".{folder.name}.site-", folder.parent) as draft:
        yield draft


def write_site(pages: Mapping[str, bytes], folder: Path) -> None:
    """Write all files beside the folder, then let them take its place: a reader sees the old site or the new one."""
    from dlc.core.atomic_files import replace_folder

    with open_draft(folder) as draft:
        made = draft / "files"
        for path, data in pages.items():
            place = made / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            place.chmod(MODE)
        for entry in (made, *made.rglob("*")):
            if entry.is_dir():
                entry.chmod(FOLDER_MODE)
        replace_folder(made, folder)
