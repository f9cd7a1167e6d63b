"""Whatever is done to a buildspec or a Dockerfile, dlc answers with a plan or an error of its own, never a traceback."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from specimen import TEXTS, changed, locked, specimen, unlocked

from dlc.errors import DlcError, LockError, SelectorError, SpecError
from dlc.matrix import load_variants
from dlc.plan import make_plan
from dlc.tree import SourceFile

FILES = sorted(path for path in TEXTS if path.startswith("buildspec/"))
RECIPES = sorted(path for path in TEXTS if path.endswith("Dockerfile"))
SNIPPETS = st.sampled_from(
    ["", "\n", " ", "  ", ":", "- ", "[", "]", "{", "}", '"', "'", "#", "&a ", "*a", "!!int ", "|\n", "null", "~", "0", "-1"]
    + ["<<: ", "? ", "---\n", "%", "\t", "\x00", "\xe9", "python: 3.11\n", "base: {}\n", "labels: []\n", ">=3.9", "==", "=="]
)  # fmt: skip


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


@settings(max_examples=300)
@given(edits(FILES))
def test_an_edited_buildspec_is_a_matrix_or_a_report_with_places(edit: tuple[str, str]) -> None:
    path, text = edit
    try:
        variants = load_variants(changed(unlocked(), path, text))
        assert variants
    except SpecError as error:
        for line in error.message.splitlines():
            assert re.match(r"buildspec/[a-z0-9./-]+:\d+:\d+: .*expected ", line), line


@settings(max_examples=200)
@given(edits(FILES))
def test_an_edited_buildspec_never_yields_a_plan_with_doubtful_names(edit: tuple[str, str]) -> None:
    try:
        plan = make_plan(locked(changed(unlocked(), *edit)))
    except DlcError:
        return
    for target in plan.targets:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", target.id)
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9./:_-]*", tag) for tag in target.tags)
        assert not any(word.startswith("-") for value in target.args.values() for word in value.split())


@settings(max_examples=200)
@given(edits(RECIPES))
def test_an_edited_recipe_is_a_plan_or_an_error(edit: tuple[str, str]) -> None:
    try:
        assert make_plan(changed(specimen(), *edit)).targets
    except DlcError as error:
        assert error.exit_code == 72


@given(st.sampled_from(sorted(specimen())), st.binary(max_size=40))
def test_any_file_replaced_by_any_bytes_is_a_plan_or_an_error(path: str, data: bytes) -> None:
    try:
        make_plan({**specimen(), path: SourceFile(data)})
    except DlcError as error:
        assert error.message


@given(st.text(max_size=20))
def test_any_glob_selects_or_is_a_selector_error(glob: str) -> None:
    try:
        assert load_variants(unlocked(), [glob])
    except SelectorError as error:
        assert glob in error.message


@given(st.sampled_from(["python", "base.image", "os_packages", "labels.a", "packages", "x"]), st.text(max_size=12))
def test_any_set_value_is_a_plan_or_an_error(path: str, value: str) -> None:
    try:
        make_plan(specimen(), (), [f"{path}={value}"])
    except DlcError as error:
        assert error.message
        assert not isinstance(error, LockError) or "--set" in error.remedy
