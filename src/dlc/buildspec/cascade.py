"""Layers of settings merged into one: defaults < file < variant < --set; marks tell which layer set what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlc.buildspec.problems import Mark, Problem
from dlc.buildspec.yaml_marks import Node, parse
from dlc.core.environment import without_passwords
from dlc.core.errors import UsageError


def merge(lower: Node, upper: Node) -> Node:
    """`upper` over `lower`: mappings are merged key by key, anything else is replaced whole."""
    if isinstance(lower.value, str | tuple) or isinstance(upper.value, str | tuple):
        return upper
    merged = dict(lower.value)
    for key, node in upper.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return Node(merged, lower.mark, lower.key_mark)


def merge_all(layers: Sequence[Node]) -> Node:
    """All layers, lowest first."""
    merged = layers[0]
    for layer in layers[1:]:
        merged = merge(merged, layer)
    return merged


def override(argument: str, legal: Node) -> tuple[Node, list[Problem]]:
    """The layer that one `--set path=value` makes; `legal` is the defaults, whose mappings say where the path splits.

    The value is read as YAML, so `--set 'os_packages=[g++, make]'` is a list. Raises UsageError without a path.
    """
    path, equals, value = argument.partition("=")
    if not equals or not path:
        raise UsageError(f"--set {argument}: expected PATH=VALUE", "for example --set base.image=debian:12")
    mark = mark_of(argument)
    parsed, problems = parse(value, mark.file)
    node = _marked(parsed, mark) if value.strip() and parsed else Node("", mark, mark)
    for key in reversed(split(path, legal)):
        node = Node({key: node}, mark, mark)
    return node, [Problem(mark, path, problem.expected, problem.found) for problem in problems]


def mark_of(argument: str) -> Mark:
    """The place of what one --set says; an address in it without its password."""
    path, _, value = argument.partition("=")
    return Mark(f"--set {path}={without_passwords(value)}")


def split(path: str, legal: Node) -> list[str]:
    """The keys of a dotted path; below the last mapping of `legal` the rest is one key, dots and all."""
    first, dot, rest = path.partition(".")
    below = legal.children().get(first)
    if dot and below is not None and not isinstance(below.value, str | tuple):
        return [first, *split(rest, below)]
    return [path]


def origins(node: Node) -> Iterable[tuple[str, str, str]]:
    """Each merged value as (path, value, the place that set it)."""
    for path, leaf in node.leaves():
        plain = leaf.plain()
        yield path, plain if isinstance(plain, str) else f"[{', '.join(map(str, plain))}]", str(leaf.mark)


def _marked(node: Node, mark: Mark) -> Node:
    """The same value, all of it said to come from `mark`."""
    if isinstance(node.value, str):
        return Node(node.value, mark, mark)
    if isinstance(node.value, tuple):
        return Node(tuple(_marked(item, mark) for item in node.value), mark, mark)
    return Node({key: _marked(child, mark) for key, child in node.value.items()}, mark, mark)
