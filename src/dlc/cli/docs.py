"""`dlc docs`: updates the tables that pages take from the code: images in the README, rooms in architecture.md."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlc.buildspec.schema_docs import make_marks, update_between
from dlc.cli.shared import house_figures
from dlc.core import labels
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import SpecError
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import Target

HELP = "update the tables of images in README.md and of rooms in docs/architecture.md, in a checkout"
EXAMPLE = "dlc docs --check"
README = "README.md"
VERB = "dlc docs"
IMAGES, ROOMS, HOUSE = "images", "rooms", "house"
ARCHITECTURE = "docs/architecture.md"
HEAD = ("| id | framework | device | Python | system | size |", "|---|---|---|---|---|---|")
NOT_BUILT = "not built yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --check."""
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing and use no engine; fail if the table is not what the buildspec says",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Update the tables, with the sizes of images that are up to date. With --check, raise SpecError if stale."""
    root = find_root()
    plan = make_plan(read_tree(root))
    targets = [plan.target(identifier) for identifier in plan.selected]
    images_before = (root / README).read_text(encoding="utf-8")
    rooms_before = (root / ARCHITECTURE).read_text(encoding="utf-8")
    fresh_images = update_table(images_before, targets, {} if args.check else _sizes_now(plan))
    fresh_rooms = update_rooms(rooms_before, read_sizes(root / "src"))
    if args.check:
        _require_current(fresh_images == images_before, README, "of images is not what the buildspec says")
        is_near = all(
            house_figures.is_near(read_table(rooms_before, name), read_table(fresh_rooms, name))
            for name in (ROOMS, HOUSE)
        )
        _require_current(is_near, ARCHITECTURE, "of rooms is off by more than a tenth")
        return 0
    for name, before, fresh in ((README, images_before, fresh_images), (ARCHITECTURE, rooms_before, fresh_rooms)):
        if fresh != before:
            (root / name).write_text(fresh, encoding="utf-8")
            print(name)
    return 0


def _require_current(is_current: bool, page: str, fault: str) -> None:
    """Raise SpecError for a stale table."""
    if not is_current:
        raise SpecError(f"{page}: the table {fault}", VERB)


def read_sizes(sources: Path) -> dict[str, house_figures.FileSize]:
    """Return what is counted of each Python file, by its path below `sources`."""
    files = sorted(sources.rglob("*.py"))
    return {
        str(file.relative_to(sources)): house_figures.measure_file(file.read_text(encoding="utf-8")) for file in files
    }


def update_rooms(document: str, files: Mapping[str, house_figures.FileSize]) -> str:
    """Return the page of the rooms with both of its tables updated; unchanged if it has no markers."""
    document = update_between(document, ROOMS, house_figures.make_rooms_table(files), VERB)
    return update_between(document, HOUSE, house_figures.make_house_table(files), VERB)


def _sizes_now(plan: Plan) -> dict[str, int]:
    """Return the bytes, unpacked, of the selected images that are built and up to date, by id."""
    engine = connect()
    existing = images.find_keys(engine, plan.refs)
    built = [d.id for d in plan.decisions(existing) if d.id in plan.selected and not d.build]
    return {identifier: images.image_size(engine, plan.target(identifier).tags[0]) for identifier in built}


def update_table(document: str, targets: Sequence[Target], sizes: Mapping[str, int]) -> str:
    """Return the README with its table updated; unchanged if it has no markers.

    `sizes` are the bytes, unpacked, of the images that are built, by id. The others keep the size that the table has
    for the same framework version, if any.
    """
    return update_between(document, IMAGES, make_table(document, targets, sizes), VERB)


def read_table(document: str, name: str) -> str:
    """Return the table between the marks of `name`."""
    begin, end = make_marks(name, VERB)
    return document.partition(begin)[2].partition(end)[0]


def make_table(document: str, targets: Sequence[Target], sizes: Mapping[str, int]) -> str:
    """Return a row for each of `targets`, in their order."""
    before = _sizes_before(document)
    rows = []
    for target in targets:
        says = target.labels
        framework = f"{says[labels.FRAMEWORK]} {says[labels.FRAMEWORK_VERSION]}"
        device = says[labels.DEVICE].replace("cpu", "CPU")
        size = (
            f"{sizes[target.id] / 1e9:.1f} GB" if target.id in sizes else before.get((target.id, framework), NOT_BUILT)
        )
        system = says[labels.OS] + (", unsupported" if labels.UNSUPPORTED in says else "")
        cells = (f"`{target.id}`", framework, device, says[labels.PYTHON], system, size)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*HEAD, *rows]) + "\n"


def _sizes_before(document: str) -> dict[tuple[str, str], str]:
    """Return the last cell of the rows that open with an identifier, by it and the framework's version."""
    found = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|.*\| ([^|]+) \|$", document, re.MULTILINE)
    return {(identifier, framework): size for identifier, framework, size in found}
