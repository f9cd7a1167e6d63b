"""Reads YAML into nodes with line and column, and merges layers of settings; each value keeps the place that set it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from dlc.checked_yaml.problems import Mark, Problem
from dlc.core.environment import hide_passwords
from dlc.core.errors import UsageError

Plain = str | list[Any] | dict[str, Any]


@dataclass(frozen=True)
class Node:
    """A scalar, a sequence or a mapping; `key_mark` is where the key that leads here is written."""

    value: str | tuple[Node, ...] | Mapping[str, Node]
    mark: Mark
    key_mark: Mark | None = None

    def plain(self) -> Plain:
        """Return the value without marks: str, list and dict only."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return {key: child.plain() for key, child in self.value.items()}

    def children(self) -> Mapping[str, Node]:
        """Return the entries of a mapping; none if this is no mapping."""
        return {} if isinstance(self.value, str | tuple) else self.value

    def at(self, path: tuple[str | int, ...]) -> Node | None:
        """Return the node below this one that `path` (keys and indices) names, or None."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(step, int):
                node = node.value[step] if isinstance(node.value, tuple) and step < len(node.value) else None
            else:
                node = node.children().get(step)
        return node

    def leaves(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Yield every scalar or sequence with its dotted path, in written order."""
        if not isinstance(self.value, str | tuple):
            for key, child in self.value.items():
                yield from child.leaves(f"{path}.{key}" if path else key)
        else:
            yield path, self


def parse_yaml(text: str, file: str) -> tuple[Node | None, list[Problem]]:
    """Read one YAML document; an empty one is an empty mapping, one with a syntax error is None.

    Syntax errors, duplicate keys, aliases and keys that are no names become problems.
    """
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        found = ": ".join(part for part in (error.context, error.problem) if part)
        return None, [Problem(_mark_of_token(place, file), "", "YAML", found)]
    except yaml.YAMLError as error:
        return None, [Problem(Mark(file, 1, 1), "", "YAML", str(error).splitlines()[0])]
    except RecursionError:
        return None, [Problem(Mark(file, 1, 1), "", "YAML", "nesting too deep to read")]
    if root is None:
        return Node({}, Mark(file, 1, 1)), []
    reader = _Reader(file)
    node = reader.read(root, "")
    return node, reader.problems


def _mark_of_token(mark: Any, file: str) -> Mark:
    return Mark(file, mark.line + 1, mark.column + 1) if mark else Mark(file, 1, 1)


class _Reader:
    """Turns PyYAML's nodes into ours and notes what a buildspec may not contain."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.seen: set[int] = set()

    def read(self, node: yaml.Node, path: str) -> Node:
        mark = _mark_of_token(node.start_mark, self.file)
        # PyYAML hands an alias out as the node it names: a second visit is an alias, and may be a cycle.
        if id(node) in self.seen:
            self.problems.append(Problem(mark, path, "each value written out", "an anchor with an alias to it"))
            return Node("", mark)
        self.seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return Node(node.value, mark)
        if isinstance(node, yaml.SequenceNode):
            return Node(tuple(self.read(item, f"{path}[{i}]") for i, item in enumerate(node.value)), mark)
        return Node(self.read_entries(node, path), mark)

    def read_entries(self, node: yaml.Node, path: str) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key_mark = _mark_of_token(key_node.start_mark, self.file)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(key_mark, path, "a name as key", "a sequence or mapping"))
                continue
            key = key_node.value
            child_path = f"{path}.{key}" if path else key
            if key in entries:
                first = entries[key].key_mark
                self.problems.append(Problem(key_mark, child_path, "each key once", f"it also at {first}"))
            entries[key] = replace(self.read(value_node, child_path), key_mark=key_mark)
        return entries


def merge_layers(lower: Node, upper: Node) -> Node:
    """Merge `upper` over `lower`: mappings are merged key by key, anything else is replaced whole."""
    if isinstance(lower.value, str | tuple) or isinstance(upper.value, str | tuple):
        return upper
    merged = dict(lower.value)
    for key, node in upper.value.items():
        merged[key] = merge_layers(merged[key], node) if key in merged else node
    return Node(merged, lower.mark, lower.key_mark)


def merge_all_layers(layers: Sequence[Node]) -> Node:
    """Merge all layers, lowest first."""
    merged = layers[0]
    for layer in layers[1:]:
        merged = merge_layers(merged, layer)
    return merged


def make_override(argument: str, legal: Node) -> tuple[Node, list[Problem]]:
    """Return the layer that one `--set path=value` makes.

    The mappings of `legal`, the defaults, say where the path splits.

    The value is read as YAML, so `--set 'os_packages=[g++, make]'` is a list. Raises UsageError without a path.
    """
    path, equals, value = argument.partition("=")
    if not equals or not path:
        raise UsageError(f"--set {argument}: expected PATH=VALUE", "for example --set base.image=debian:12")
    return read_layer(make_set_mark(argument), path, split_path(path, legal), value)


def read_layer(mark: Mark, path: str, keys: Sequence[str], value: str) -> tuple[Node, list[Problem]]:
    """Return the layer of one value of the command line, which is read as YAML; `keys` lead to its place."""
    parsed, problems = parse_yaml(value, mark.file)
    node = mark_all(parsed, mark) if value.strip() and parsed else Node("", mark, mark)
    for key in reversed(keys):
        node = Node({key: node}, mark, mark)
    return node, [Problem(mark, path, problem.expected, problem.found) for problem in problems]


def make_set_mark(argument: str) -> Mark:
    """Return the place of one --set; an address in it without its password."""
    path, _, value = argument.partition("=")
    return Mark(f"--set {path}={hide_passwords(value)}")


def split_path(path: str, legal: Node) -> list[str]:
    """Split a dotted path into keys; below the last mapping of `legal` the rest is one key, dots and all."""
    first, dot, rest = path.partition(".")
    below = legal.children().get(first)
    if dot and below is not None and not isinstance(below.value, str | tuple):
        return [first, *split_path(rest, below)]
    return [path]


def list_origins(node: Node) -> Iterable[tuple[str, str, str]]:
    """Yield each merged value as (path, value, the place that set it)."""
    for path, leaf in node.leaves():
        plain = leaf.plain()
        yield path, plain if isinstance(plain, str) else f"[{', '.join(map(str, plain))}]", str(leaf.mark)


def mark_all(node: Node, mark: Mark) -> Node:
    """Return the same value, all of it said to come from `mark`."""
    if isinstance(node.value, str):
        return Node(node.value, mark, mark)
    if isinstance(node.value, tuple):
        return Node(tuple(mark_all(item, mark) for item in node.value), mark, mark)
    return Node({key: mark_all(child, mark) for key, child in node.value.items()}, mark, mark)
