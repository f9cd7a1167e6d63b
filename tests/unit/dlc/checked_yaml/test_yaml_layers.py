"""YAML is read with the place of everything in it, and nothing in it is guessed."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from dlc.checked_yaml.problems import Problem
from dlc.checked_yaml.yaml_layers import Node, Plain, parse_yaml

names = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=8)
values: st.SearchStrategy[Plain] = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


def read(text: str) -> tuple[Node, list[Problem]]:
    """For documents whose syntax is right."""
    node, problems = parse_yaml(text, "x.yml")
    assert node is not None
    return node, problems


@given(st.dictionaries(names, values, max_size=4))
def test_whatever_yaml_writes_is_read_back_as_text(document: dict[str, Plain]) -> None:
    text = yaml.safe_dump(document, default_style='"', allow_unicode=True)
    node, problems = read(text)
    assert problems == []
    assert node.plain() == document


@given(st.text(max_size=60))
def test_any_text_is_a_node_or_problems_and_never_an_exception(text: str) -> None:
    node, problems = parse_yaml(text, "x.yml")
    assert problems or node is not None


@given(st.lists(names, min_size=1, max_size=6, unique=True))
def test_each_mark_points_at_the_value_it_belongs_to(keys: list[str]) -> None:
    lines = [yaml.safe_dump({key: "here"}, default_style='"').strip() for key in keys]
    node, _ = read("\n".join(lines))
    for number, key in enumerate(keys, 1):
        child = node.children()[key]
        assert child.key_mark is not None
        assert (child.key_mark.line, child.key_mark.column) == (number, 1)
        assert lines[number - 1][child.mark.column - 1 :] == '"here"'


def test_scalars_stay_the_text_that_was_written() -> None:
    node, _ = read("{a: 3.10, b: no, c: 012, d: 1e3, e: null, f: 2020-01-01}")
    assert node.plain() == {"a": "3.10", "b": "no", "c": "012", "d": "1e3", "e": "null", "f": "2020-01-01"}


def test_a_duplicate_key_is_reported_with_both_places() -> None:
    _, problems = parse_yaml("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "x.yml")
    assert [str(problem) for problem in problems] == [
        "x.yml:5:3: b.c: expected each key once, found it also at x.yml:3:3"
    ]


def test_an_alias_is_reported_even_when_it_is_a_cycle() -> None:
    for text in ("a: &x [1]\nb: *x\n", "a: &x\n  b: *x\n", "a: &x [*x]\n"):
        _, problems = parse_yaml(text, "x.yml")
        assert ["alias" in str(problem) for problem in problems] == [True]


def test_a_syntax_error_is_reported_at_its_line() -> None:
    _, problems = parse_yaml("a: 1\nb: [1, 2\nc: 3\n", "x.yml")
    assert [(problem.mark.file, problem.mark.line) for problem in problems] == [("x.yml", 3)]


def test_control_bytes_second_documents_complex_keys_and_deep_nesting_are_problems() -> None:
    for text in ("a: \0", "a: 1\n---\nb: 2\n", "[a, b]: 1\n", "{" * 1_000, "[" * 1_000 + "]" * 1_000):
        _, problems = parse_yaml(text, "x.yml")
        assert len(problems) == 1
    assert problems[0].found == "nesting too deep to read"


def test_a_byte_that_yaml_has_not_is_named() -> None:
    _, problems = parse_yaml("a: \0", "x.yml")
    assert str(problems[0]).startswith("x.yml:1:1: expected YAML, found unacceptable character #x0000")


def test_a_path_that_leads_past_the_end_leads_nowhere() -> None:
    node, _ = read("a: [x]")
    assert node.at(("a", 0)) is not None
    assert [node.at(path) for path in [("a", 1), ("a", 0, 0), ("b", 0)]] == [None, None, None]


def test_an_empty_file_is_an_empty_mapping() -> None:
    for text in ("", "# only a comment\n"):
        node, problems = read(text)
        assert problems == []
        assert node.plain() == {}
