"""`dlc docs`: updates the README's table of images, from buildspec and locks, with the size of each built image."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

from dlc.core import labels
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import SpecError
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import Target

HELP = "update the README's table of images, with the sizes of those that are built"
EXAMPLE = "dlc docs --check"
README = "README.md"
BEGIN, END = "<!-- images: `dlc docs` writes this -->\n", "<!-- end of images -->\n"
HEAD = ("| id | framework | device | Python | system | size |", "|---|---|---|---|---|---|")
NOT_BUILT = "not built yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --check."""
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing and use no engine; fail if the table is not what the buildspec says",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Update the table, with the sizes of images that are up to date. With --check, raise SpecError if stale."""
    root = find_root()
    plan = make_plan(read_tree(root))
    path = root / README
    before = path.read_text(encoding="utf-8")
    targets = [plan.target(identifier) for identifier in plan.selected]
    fresh = update_table(before, targets, {} if args.check else _sizes_now(plan))
    if fresh == before:
        return 0
    if args.check:
        raise SpecError(f"{README}: the table of images is not what the buildspec says", "dlc docs")
    path.write_text(fresh, encoding="utf-8")
    print(README)
    return 0


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
    written = BEGIN + make_table(document, targets, sizes) + END
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: written, document, flags=re.DOTALL)


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
