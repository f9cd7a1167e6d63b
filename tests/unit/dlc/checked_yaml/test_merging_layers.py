"""Layers merge key by key, the last one wins, and every value remembers where it came from."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.checked_yaml.problems import Mark
from dlc.checked_yaml.yaml_layers import (
    Node,
    Plain,
    list_origins,
    make_override,
    merge_all_layers,
    merge_layers,
    parse_yaml,
    split_path,
)
from dlc.core.errors import UsageError

KEYS = st.sampled_from("abcd")
plain_layers = st.dictionaries(
    KEYS,
    st.recursive(
        st.sampled_from("xyz") | st.lists(st.sampled_from("xyz"), max_size=2),
        lambda inner: st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def node_of(value: Plain, file: str) -> Node:
    if isinstance(value, str):
        return Node(value, Mark(file, 1, 1))
    if isinstance(value, list):
        return Node(tuple(node_of(item, file) for item in value), Mark(file, 1, 1))
    return Node({key: node_of(child, file) for key, child in value.items()}, Mark(file, 1, 1))


def naive_merge(lower: Plain, upper: Plain) -> Plain:
    if isinstance(lower, dict) and isinstance(upper, dict):
        both = {key: naive_merge(lower[key], upper[key]) for key in lower.keys() & upper.keys()}
        return {**lower, **upper, **both}
    return upper


@given(st.lists(plain_layers, min_size=1, max_size=4))
def test_merging_agrees_with_the_plain_definition(layers: list[Plain]) -> None:
    merged = merge_all_layers([node_of(layer, str(i)) for i, layer in enumerate(layers)])
    assert merged.plain() == reduce(naive_merge, layers)


@given(plain_layers)
def test_an_empty_layer_changes_nothing(layer: Plain) -> None:
    node, empty = node_of(layer, "a"), node_of({}, "b")
    assert merge_layers(node, empty) == node
    assert merge_layers(empty, node).plain() == layer


@given(plain_layers, plain_layers)
def test_each_value_comes_from_the_highest_layer_that_has_it(lower: Plain, upper: Plain) -> None:
    top = node_of(upper, "upper")
    for path, leaf in merge_layers(node_of(lower, "lower"), top).leaves():
        expected = "upper" if (path, leaf) in list(top.leaves()) else "lower"
        assert leaf.mark.file == expected


PARSED, _ = parse_yaml("base: {image: ''}\nlabels: {}\nos_packages: []\npython: '3.11'\n", "defaults.yml")
assert PARSED is not None
LEGAL = PARSED


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("python", ["python"]),
        ("base.image", ["base", "image"]),
        ("labels.org.example.team", ["labels", "org.example.team"]),
        ("bas.image", ["bas.image"]),
        ("python.x", ["python.x"]),
    ],
)
def test_a_set_path_splits_where_the_defaults_have_mappings(path: str, keys: list[str]) -> None:
    assert split_path(path, LEGAL) == keys


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("base.image=debian:12", {"base": {"image": "debian:12"}}),
        ("base.image=", {"base": {"image": ""}}),
        ("os_packages=[g++, make]", {"os_packages": ["g++", "make"]}),
        ("labels.a.b=x=y", {"labels": {"a.b": "x=y"}}),
    ],
)
def test_a_set_value_is_read_as_yaml(argument: str, value: Plain) -> None:
    node, problems = make_override(argument, LEGAL)
    assert problems == []
    assert node.plain() == value


@pytest.mark.parametrize("argument", ["python", "=3.11", ""])
def test_a_set_without_path_or_value_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError, match="expected PATH=VALUE"):
        make_override(argument, LEGAL)


def test_a_set_value_that_is_no_yaml_is_a_problem_at_the_option() -> None:
    _, problems = make_override("os_packages=[g++", LEGAL)
    assert [problem.mark for problem in problems] == [Mark("--set os_packages=[g++")]


def test_origins_name_the_file_line_and_option_that_set_a_value() -> None:
    top, _ = make_override("base.image=debian:12", LEGAL)
    shown = {path: (value, place) for path, value, place in list_origins(merge_layers(LEGAL, top))}
    assert shown["base.image"] == ("debian:12", "--set base.image=debian:12")
    assert shown["python"] == ("3.11", "defaults.yml:4:9")
