"""The recorded Debian versions, one list for each suite. Builds take them while the mirror has them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlc.core.checkout import Tree, text
from dlc.core.errors import LockError

HEADING = """\
# Debian packages of the {suite} images and of what compiles for them: one `name=version` per line.
# Builds take these versions while Debian's mirrors have them. A mirror drops a version when an update replaces it:
# the build then installs the newer one and says so. `dlc update debian --write` makes this file anew.
"""

# A comment, nothing, or a package with a version as Debian's policy has them.
LINE = re.compile(r"#.*||[a-z0-9][a-z0-9+.-]+=([0-9]+:)?[0-9][A-Za-z0-9.+~:-]*")


def folder(suite: str) -> str:
    """Path of the folder with a suite's list; it is the named context `debian` of a build."""
    return f"docker/debian/{suite}"


def path(suite: str) -> str:
    """The list itself."""
    return f"{folder(suite)}/versions.txt"


def recorded(tree: Tree, suite: str) -> dict[str, str]:
    """Package -> version. Raises LockError if the suite has no list, or one with a line of a merge conflict."""
    if path(suite) not in tree:
        raise LockError(
            f"{path(suite)}: expected the Debian versions of this suite, found no file", "dlc update debian --write"
        )
    listing = text(tree, path(suite))
    for number, line in enumerate(listing.splitlines(), 1):
        if not LINE.fullmatch(line):
            raise LockError(
                f"{path(suite)}:{number}: expected NAME=VERSION, found {line[:80]!r}",
                "correct the line, or remove the file and run dlc update debian --write",
            )
    return versions(listing)


def versions(listing: str) -> dict[str, str]:
    """Package -> version, from the text of a list."""
    lines = [line.partition("=") for line in listing.splitlines() if line and not line.startswith("#")]
    return {name: version for name, _, version in lines}


def as_text(suite: str, found: Mapping[str, str]) -> str:
    """The list as its file has it."""
    return HEADING.format(suite=suite) + "".join(f"{name}={found[name]}\n" for name in sorted(found))


def preferences(found: Mapping[str, str]) -> str:
    """The list as apt preferences. Above 1000: apt goes back to the version even where it is older than another."""
    stanzas = [f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n" for name, version in found.items()]
    return "\n".join(stanzas)
