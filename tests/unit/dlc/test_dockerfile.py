"""Dockerfiles are read as BuildKit reads them, as far as arguments, stages and sources go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.plan.dockerfile import instructions, parse, variables

words = st.text("abcxyz", min_size=1, max_size=6)


@given(
    st.lists(st.tuples(st.sampled_from(["RUN", "ENV", "COPY"]), st.lists(words, min_size=1, max_size=4)), max_size=6)
)
def test_breaking_lines_changes_no_instruction(entries: list[tuple[str, list[str]]]) -> None:
    flat = "".join(f"{keyword} {' '.join(args)}\n" for keyword, args in entries)
    broken = "".join(f"{keyword} " + " \\\n  # why\n\n   ".join(args) + "\n" for keyword, args in entries)
    assert [(i.keyword, i.text) for i in instructions(flat)] == [(i.keyword, i.text) for i in instructions(broken)]


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for instruction in instructions(text):
        assert instruction.line >= 1


@given(
    st.lists(
        st.sampled_from(["FROM a AS b", "ARG X='", "ARG", "FROM", "FROM ${", "RUN <<E", "COPY --from=b x y", "\\"])
    )
)
def test_broken_dockerfiles_are_read_without_an_exception(lines: list[str]) -> None:
    assert parse("\n".join(lines)).stages is not None


def test_lines_are_those_where_instructions_begin() -> None:
    text = "# one\n\nFROM a\nRUN x \\\n  y\n\nENV Z=1\n"
    assert [(i.line, i.keyword, i.text) for i in instructions(text)] == [
        (3, "FROM", "a"),
        (4, "RUN", "x y"),
        (7, "ENV", "Z=1"),
    ]


def test_a_here_document_belongs_to_its_instruction() -> None:
    text = 'FROM a\nARG X\nRUN <<EOF\necho "$X"\nFROM nothing\nEOF\nCOPY <<-"A" <<B /x/\n\tone\n\tA\ntwo\nB\nENV E=1\n'
    assert [i.keyword for i in instructions(text)] == ["FROM", "ARG", "RUN", "COPY", "ENV"]
    assert parse(text).stages[0].reads == {"X": 3}


@pytest.mark.parametrize(
    ("text", "names"),
    [("$A ${B} ${C:-d} ${D:+$E}", ["A", "B", "C", "D", "E"]), (r"\$A $$ $1 ${}", []), ("$A_1b", ["A_1b"])],
)
def test_variables_are_found_in_every_form(text: str, names: list[str]) -> None:
    assert variables(text) == names


def test_stages_know_their_base_arguments_and_sources() -> None:
    text = """\
ARG VERSION=12
FROM --platform=$BUILDPLATFORM debian:${VERSION} as one
ARG A=1 B
FROM one
COPY --chown=0 --from=two /a /b
RUN --mount=type=bind,from=three,target=/x --mount=type=cache,target=/y cat /x
RUN echo --from=none
"""
    recipe = parse(text)
    one, second = recipe.stages
    assert (one.name, one.base) == ("one", "debian:12")
    assert {name: argument.default for name, argument in one.arguments.items()} == {"A": "1", "B": None}
    assert (second.name, second.base) == ("1", "one")
    assert second.sources == {"two": 5, "three": 6}
    assert recipe.external() == {"debian:12": 2, "two": 5, "three": 6}
    assert [parent.name for parent in recipe.parents(second)] == ["one"]


def test_stage_names_indices_and_scratch_are_not_external() -> None:
    text = "FROM scratch AS a\nFROM a\nCOPY --from=0 x y\nCOPY --from=a x y\nCOPY --from=later x y\n"
    text += "FROM scratch AS later\n"
    assert parse(text).external() == {"later": 5}


@pytest.mark.parametrize(
    ("reference", "base"), [("$V", "12"), ("${V}", "12"), ("${V:-9}", "12"), ("${W:-9}", "9"), ("${W}", "${W}")]
)
def test_a_from_line_gets_the_defaults_of_global_arguments(reference: str, base: str) -> None:
    assert parse(f"ARG V=12\nFROM debian:{reference}\n").stages[0].base == f"debian:{base}"
