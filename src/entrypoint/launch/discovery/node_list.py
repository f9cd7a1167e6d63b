"""Lists of host names in Slurm's short notation: `a,b[1-3]` is a, b1, b2, b3."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launch.base.errors import CONFIG, LaunchError, shown

MOST_HOSTS = 65536  # a node list that is longer is a mistake or an attack


def expand(node_list: str, where: str = "SLURM_STEP_NODELIST") -> Iterator[str]:
    """The names in a node list: `a,b[1-3,07]-x` is a, b1-x, b2-x, b3-x, b07-x. Leading zeros keep their width.

    Raises LaunchError, naming `where` it was read, for a malformed list.
    """
    count = 0
    for item in _split(node_list, where):
        for name in _product(item, node_list, where):
            count += 1
            if count > MOST_HOSTS:
                raise _malformed(node_list, where)
            yield name


def _split(node_list: str, where: str) -> list[str]:
    """At the commas that are outside of brackets."""
    if not re.fullmatch(r"(\[[0-9,-]+\]|[^\[\],])+(,(\[[0-9,-]+\]|[^\[\],])+)*", node_list):
        raise _malformed(node_list, where)
    return re.findall(r"(?:\[[0-9,-]+\]|[^\[\],])+", node_list)


def _product(item: str, node_list: str, where: str) -> Iterator[str]:
    head, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    ranges, _, tail = rest.partition("]")
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if not match:
            raise _malformed(node_list, where)
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise _malformed(node_list, where)
        for number in range(int(first), int(last) + 1):
            yield from _product(f"{head}{number:0{len(first)}d}{tail}", node_list, where)


def _malformed(node_list: str, where: str) -> LaunchError:
    return LaunchError(CONFIG, "malformed", where=where, expected="a node list like a[1-3],b", found=shown(node_list))
