"""The README's table of images: from buildspec and locks, with the size of each built image. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dlc.core import labels
from dlc.plan.targets import Target

README = "README.md"
BEGIN, END = "<!-- images: `dlc docs` writes this -->\n", "<!-- end of images -->\n"
HEAD = ("| id | framework | device | Python | system | size |", "|---|---|---|---|---|---|")
NOT_BUILT = "not built yet"


def updated(document: str, targets: Sequence[Target], sizes: Mapping[str, int]) -> str:
    """The README with its table updated; unchanged if it has no markers.

    `sizes` are the bytes, unpacked, of the images that are built, by id. The others keep the size that the table has
    for the same framework version, if any.
    """
    written = BEGIN + table(document, targets, sizes) + END
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: written, document, flags=re.DOTALL)


def table(document: str, targets: Sequence[Target], sizes: Mapping[str, int]) -> str:
    """One row for each of `targets`, in their order."""
    before = _sizes(document)
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


def _sizes(document: str) -> dict[tuple[str, str], str]:
    """The last cell of the rows that open with an identifier, by it and the framework's version."""
    found = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|.*\| ([^|]+) \|$", document, re.MULTILINE)
    return {(identifier, framework): size for identifier, framework, size in found}
