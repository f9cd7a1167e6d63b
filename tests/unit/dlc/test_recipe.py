"""A Dockerfile and what the plan hands to it must fit, or nothing is built."""

from __future__ import annotations

import pytest

from dlc.core.errors import RecipeError
from dlc.plan.recipe import require_fit

GOOD = """\
FROM base AS one
ARG A
RUN echo $A
FROM one
RUN --mount=from=scripts,target=/s echo ${A}
"""


def complaints(text: str, args: str = "", contexts: str = "base") -> list[str]:
    with pytest.raises(RecipeError) as caught:
        require_fit("Dockerfile", text, dict.fromkeys(args.split(), "1"), dict.fromkeys(contexts.split(), "repo:x"))
    return caught.value.message.splitlines()


def test_a_recipe_that_fits_passes() -> None:
    require_fit("Dockerfile", GOOD, {"A": "1"}, {"base": "target:b", "scripts": "repo:s"})


@pytest.mark.parametrize(
    ("text", "args", "complaint"),
    [
        ("FROM base\nARG A\n", "A", "Dockerfile:2: ARG A: expected $A in stage 0, found none"),
        ("FROM base\nARG A=1\n", "", "Dockerfile:2: ARG A: expected $A in stage 0, found none"),
        ("ARG A=1\nFROM base\n", "", "Dockerfile:1: ARG A: expected a FROM or a stage that reads it, found none"),
        ("FROM base\nARG A\nRUN $A\n", "",
         "Dockerfile:2: ARG A: expected a value, found no default and no build argument"),
        ("ARG A\nFROM base:$A\n", "", "Dockerfile:1: ARG A: expected a value, found no default and no build argument"),
        ("FROM base\n", "A", "Dockerfile:1: A: expected an ARG for this build argument, found none"),
        ("FROM base\nARG PYTHON\nRUN $PYTHON\n", "PYTHN PYTHON", "did you mean 'PYTHON'?"),
        ("FROM base AS a\nARG A\nRUN $A\nFROM base\nENV X=$A\n", "A",
         "Dockerfile:5: $A: expected `ARG A` in stage 1, found it in other stages only"),
        ("ARG A=1\nFROM base:$A\nRUN $A\n", "", "Dockerfile:3: $A: expected `ARG A` in stage 0"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named_with_their_line(text: str, args: str, complaint: str) -> None:
    assert any(complaint in line for line in complaints(text, args))


def test_an_argument_of_a_parent_stage_may_be_read_by_its_heir_only() -> None:
    require_fit("Dockerfile", "FROM base AS a\nARG A\nFROM a\nRUN $A\n", {"A": "1"}, {"base": ""})
    assert complaints("FROM base AS a\nARG A\nFROM base\nRUN $A\n", "A") == [
        "Dockerfile:2: ARG A: expected $A in stage a, found none",
        "Dockerfile:4: $A: expected `ARG A` in stage 1, found it in other stages only",
    ]


@pytest.mark.parametrize("name", ["SOURCE_DATE_EPOCH", "HTTPS_PROXY", "no_proxy", "TARGETARCH"])
def test_what_buildkit_sets_itself_needs_no_value_and_no_reader(name: str) -> None:
    require_fit("Dockerfile", f"FROM base\nARG {name}\n", {}, {"base": ""})


def test_a_global_argument_may_be_declared_again_in_a_stage() -> None:
    require_fit("Dockerfile", "ARG A=1\nFROM base\nARG A\nRUN $A\n", {}, {"base": ""})


@pytest.mark.parametrize(
    "text", ["FROM bas\n", "FROM base\nCOPY --from=bas x y\n", "FROM base\nRUN --mount=from=bas x\n"]
)
def test_a_source_that_is_no_stage_and_no_context_is_named(text: str) -> None:
    line = text.count("\n")
    assert f"Dockerfile:{line}: bas: expected a stage or a named context (base); did you mean 'base'?" in complaints(
        text
    )


def test_a_context_that_nothing_uses_is_named() -> None:
    assert complaints("FROM base\n", contexts="base wheels") == [
        "Dockerfile:1: named context wheels: expected a FROM, COPY --from or --mount that uses it, found none"
    ]


def test_a_registry_image_in_a_recipe_is_refused_because_it_would_be_pulled() -> None:
    assert "debian:12: expected a stage or a named context" in complaints("FROM debian:12\nFROM base\n")[0]
