"""image_build.export.stages: stages are read, renamed, and put into an order in which each finds what it takes from."""

from __future__ import annotations

import pytest

from dlc.core.errors import SpecError
from dlc.image_build.export.stages import (
    Stage,
    list_global_arguments,
    move_own_files,
    order_stages,
    parse_stages,
    quote_value,
    rename_sources,
    set_defaults,
)

TEXT = """\
# About the file.
ARG VERSION=1

# About one.
# Two lines.
FROM ${VERSION} AS one
RUN true

FROM one AS two
# Inside.
COPY --from=outside /a /b
RUN --mount=type=bind,from=one,target=/one \\
    --mount=type=bind,source=lock.txt,target=/lock.txt \\
    --mount=type=secret,id=netrc \\
    use from=outside
"""


def test_a_comment_belongs_to_the_stage_below_it() -> None:
    one, two = parse_stages(TEXT)
    assert one == Stage("one", "${VERSION}", "# About one.\n# Two lines.\n", "RUN true\n")
    assert (two.name, two.base, two.comment) == ("two", "one", "")
    assert two.body.startswith("# Inside.\nCOPY ")


def test_stages_are_written_as_they_were_read() -> None:
    assert "\n".join(stage.text for stage in parse_stages(TEXT)) in TEXT


def test_a_stage_without_a_name_gets_one() -> None:
    assert parse_stages("FROM training\nENV A=1\n", "settings") == [Stage("settings", "training", "", "ENV A=1\n")]


def test_arguments_above_the_first_stage_are_the_files() -> None:
    assert list_global_arguments(TEXT) == ["ARG VERSION=1"]


def test_a_stage_takes_from_its_base_its_mounts_and_its_copies() -> None:
    assert parse_stages(TEXT)[1].sources == ("one", "outside")


def test_names_are_replaced_where_they_are_sources_and_nowhere_else() -> None:
    renamed = rename_sources(parse_stages(TEXT)[1], {"one": "first", "outside": "inside"})
    assert renamed.base == "first"
    assert "COPY --from=inside /a /b" in renamed.body
    assert "--mount=type=bind,from=first,target=/one" in renamed.body
    assert "use from=outside" in renamed.body


def test_only_mounts_of_the_builds_own_folder_are_moved() -> None:
    stage = parse_stages(TEXT)[1]
    moved = move_own_files(stage, "locks", "Dockerfile")
    assert moved.body == stage.body.replace("source=lock.txt", "source=locks/lock.txt")


@pytest.mark.parametrize("line", ["COPY file /", "ADD file.tar /", "COPY --chmod=644 file /"])
def test_a_copy_of_the_builds_own_files_is_refused(line: str) -> None:
    with pytest.raises(SpecError, match="expected files to be mounted"):
        move_own_files(Stage("one", "scratch", "", f"{line}\n"), "locks", "Dockerfile")


def test_an_argument_gets_its_value_as_a_dockerfile_reads_it() -> None:
    stage = Stage("one", "scratch", "", "ARG A\nARG B\nARG C=kept\nRUN ${A}\n")
    assert set_defaults(stage, {"A": 'a "$b" \\'}).body == 'ARG A="a \\"\\$b\\" \\\\"\nARG B\nARG C=kept\nRUN ${A}\n'


def test_a_value_of_several_lines_is_refused() -> None:
    with pytest.raises(SpecError, match="expected one line"):
        quote_value("a\nb")


def test_each_stage_stands_after_what_it_takes_from_and_others_are_left_out() -> None:
    bodies = {"last": "COPY --from=middle / /\n", "middle": "", "first": "", "unused": ""}
    bases = {"last": "first", "middle": "first"}
    stages = {name: Stage(name, bases.get(name, "scratch"), "", body) for name, body in bodies.items()}
    assert [stage.name for stage in order_stages(stages, "last")] == ["first", "middle", "last"]
