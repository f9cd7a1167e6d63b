"""The Debian suites that images can be made of, with the facts that dlc needs about each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dlc.core.errors import LockError


@dataclass(frozen=True)
class Suite:
    """One Debian release."""

    name: str
    glibc: str  # level of the newest wheels that its C library loads, as in manylinux_2_36
    until: date  # last day of security updates, long-term support included
    merged_usr: bool  # /bin and /lib are links into /usr from the first package on


SUITES = {
    suite.name: suite
    for suite in (
        Suite("bullseye", glibc="2.31", until=date(2026, 8, 31), merged_usr=False),
        Suite("bookworm", glibc="2.36", until=date(2028, 6, 30), merged_usr=True),
        # It has 2.41; uv knows no later wheels than 2.40.
        Suite("trixie", glibc="2.40", until=date(2030, 6, 30), merged_usr=True),
    )
}


def suite(name: str) -> Suite:
    """The facts about a suite. Raises LockError for one that the table does not have."""
    if name not in SUITES:
        raise LockError(
            f"suite {name}: expected one of {', '.join(SUITES)}, which src/dlc/debian/suites.py knows",
            "name one of these under `suites` in buildspec/defaults.yml, or add the new one to that table",
        )
    return SUITES[name]
