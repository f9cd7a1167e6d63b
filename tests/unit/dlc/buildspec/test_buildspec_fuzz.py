"""Whatever is done to a buildspec or a Dockerfile, the answer is a plan or an error of ours, never a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import DlcError, LockError, SelectorError, SpecError
from dlc.core.text import escape_controls
from dlc.plan.plan import Plan, make_plan
from harness.examples import examples
from harness.specimen import TEXTS, changed, locked, specimen, unlocked

FILES = sorted(path for path in TEXTS if path.startswith("buildspec/"))
SNIPPETS = st.sampled_from(
    [
        *(
            "",
            "\n",
            " ",
            "  ",
            ":",
            "- ",
            "[",
            "]",
            "{",
            "}",
            '"',
            "'",
            "#",
            "&a ",
            "*a",
            "!!int ",
            "|\n",
            "null",
            "~",
            "0",
        ),
        *(
            "<<: ",
            "? ",
            "---\n",
            "%",
            "\t",
            "\x00",
            "\xe9",
            "python: 3.11\n",
            "base: {}\n",
            "labels: []\n",
            ">=3.9",
            "==",
        ),
    ]
)


def outcome(tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = ()) -> Plan | DlcError:
    """The plan, or the error of ours that stands in its place; any other exception fails the test."""
    try:
        return make_plan(tree, globs, sets)
    except DlcError as error:
        return error


@st.composite
def edits(draw: st.DrawFn, paths: list[str]) -> tuple[str, str]:
    """A file of the specimen with up to three spans replaced."""
    path = draw(st.sampled_from(paths))
    text = TEXTS[path]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(SNIPPETS) + text[end:]
    return path, text


@examples(150)
@given(edits(FILES))
def test_an_edited_buildspec_is_a_matrix_or_a_report_with_places(edit: tuple[str, str]) -> None:
    result = outcome(changed(unlocked(), *edit))
    assert isinstance(result, SpecError | LockError)
    for line in result.message.splitlines() if isinstance(result, SpecError) else ():
        assert re.match(r"buildspec/[a-z0-9./-]+:\d+:\d+: .*expected ", line), line


@examples(100)
@given(edits(FILES))
def test_an_edited_buildspec_never_yields_a_plan_with_doubtful_names(edit: tuple[str, str]) -> None:
    tree = changed(unlocked(), *edit)
    result = outcome(tree)
    plan = outcome(locked(tree)) if isinstance(result, LockError) else None
    for target in plan.targets if isinstance(plan, Plan) else ():
        assert re.fullmatch(r"[a-z0-9][a-z0-9./-]*", target.id)
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9./:_-]*", tag) for tag in target.tags)
        assert not any(word.startswith("-") for value in target.args.values() for word in value.split())


@given(st.sampled_from(sorted(specimen())), st.binary(max_size=40))
def test_any_file_replaced_by_any_bytes_is_a_plan_or_an_error(path: str, data: bytes) -> None:
    assert outcome({**specimen(), path: SourceFile(data)})


@given(st.text(max_size=20))
def test_any_glob_selects_or_is_a_selector_error(glob: str) -> None:
    result = outcome(specimen(), [glob])
    assert escape_controls(glob) in result.message if isinstance(result, SelectorError) else isinstance(result, Plan)


@given(st.sampled_from(["python", "base.image", "os_packages", "labels.a", "packages", "x"]), st.text(max_size=12))
def test_any_set_value_is_a_plan_or_an_error(path: str, value: str) -> None:
    result = outcome(specimen(), (), [f"{path}={value}"])
    assert not isinstance(result, LockError) or "--set" in result.remedy
