"""Versions as tuples of numbers, and conditions such as `>=3.10,<3.14` on them."""

from __future__ import annotations

import fnmatch
import operator
import re

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
CLAUSE = re.compile(r"^(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)$")


def release(version: str) -> tuple[int, ...]:
    """The leading numbers without trailing zeros: `2.13.0+cpu` is (2, 13), so that it equals `2.13`."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match.group().split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_range(condition: str) -> bool:
    """Whether `condition` is a comma-separated list of version clauses, rather than a glob."""
    return all(CLAUSE.match(clause.strip()) for clause in condition.split(","))


def satisfies(found: str, condition: str) -> bool:
    """Whether `found` fulfils every clause of a range, or matches the glob that `condition` is otherwise."""
    if not is_range(condition):
        return fnmatch.fnmatchcase(found, condition)
    matches = (CLAUSE.match(clause.strip()) for clause in condition.split(","))
    return all(OPERATORS[m.group(1)](release(found), release(m.group(2))) for m in matches if m)


def starts_with(version: str, prefix: str) -> bool:
    """Whether `version` is of the series `prefix`: 2.13.0+cpu is of 2.13, 2.1.3 is not."""
    return re.match(re.escape(prefix) + r"(?![0-9])", version) is not None
