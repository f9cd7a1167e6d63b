"""Versions and conditions on them, such as `>=3.10,<3.14`, in the order of Python (PEP 440) and of Debian."""

from __future__ import annotations

import fnmatch
import operator
import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
CLAUSE = re.compile(r"^(>=|<=|==|!=|>|<)\s*([0-9]\S*)$")
# What Debian allows in a version: epoch, upstream version, revision.
DEBIAN = re.compile(r"^(?:[0-9]+:)?[0-9][A-Za-z0-9.+~:-]*$")


def parse_number(text: str) -> Version:
    """Return the version that a text begins with, for sorting: `2.13-training.yml` as 2.13; else 0."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return Version(match.group() if match else "0")


def is_newer(one: str, other: str) -> bool:
    """Tell whether a Python version is after another; release candidates, post-releases and local versions count."""
    return Version(one) > Version(other)


def is_range(condition: str) -> bool:
    """Tell whether a condition is a list of clauses that PEP 440 knows, rather than a glob."""
    try:
        return bool(condition) and len(SpecifierSet(condition)) > 0
    except InvalidSpecifier:
        return False


def satisfies(found: str, condition: str) -> bool:
    """Tell whether `found` fulfils every clause of a range, or matches the glob that `condition` is otherwise.

    A text that is no version fulfils no range.
    """
    if not is_range(condition):
        return fnmatch.fnmatchcase(found, condition)
    try:
        return SpecifierSet(condition).contains(Version(found), prereleases=True)
    except InvalidVersion:
        return False


def debian_clauses(condition: str) -> list[tuple[str, str]]:
    """Return (operator, version) of each clause of a range of Debian versions. Raises ValueError for anything else."""
    matches = [CLAUSE.match(clause.strip()) for clause in condition.split(",")]
    clauses = [(match[1], match[2]) for match in matches if match and DEBIAN.match(match[2])]
    if len(clauses) != len(matches):
        raise ValueError("Debian's versions, as in >=1:9.2p1-2")
    return clauses


def debian_satisfies(found: str, condition: str) -> bool:
    """Do as `satisfies` for a Debian package, in dpkg's order: epochs first, `~` before everything."""
    # Imported here because it is slow and few rules need it.
    from debian.debian_support import NativeVersion

    return all(
        OPERATORS[sign](NativeVersion(found), NativeVersion(version)) for sign, version in debian_clauses(condition)
    )


def starts_with(version: str, series: str) -> bool:
    """Tell whether `version` is of the series: 2.13.0+cpu is of 2.13, 2.1.3 is not."""
    return satisfies(version, f"=={series}.*")
