"""dlc.cli.docs: pages say what buildspec, locks and sources say, and image sizes once they are built."""

from __future__ import annotations

from dataclasses import replace

from dlc.buildspec.schema_docs import make_marks
from dlc.cli.docs import IMAGES, NOT_BUILT, README, VERB, make_table, update_table
from dlc.core.checkout import find_root
from dlc.plan.contexts import Repo
from dlc.plan.targets import Target

LABELS = {"org.dlc.framework": "other", "org.dlc.framework.version": "2.0", "org.dlc.device": "cu132",
          "org.dlc.python": "3.13", "org.dlc.os": "debian-trixie"}  # fmt: skip
BEGIN, END = make_marks(IMAGES, VERB)
TOY, OTHER = "toy-1.17-training-cpu-py311", "other-2.0-training-cu132-py313"
TARGETS = [Target(name, "Dockerfile", Repo("nothing"), labels=LABELS) for name in (TOY, OTHER)]
ROW = f"| `{OTHER}` | other 2.0 | cu132 | 3.13 | debian-trixie | {{}} |"


def rows(document: str) -> list[str]:
    return document.splitlines()[2:]


def test_every_image_has_a_row_in_the_order_of_the_buildspec() -> None:
    assert rows(make_table("", TARGETS, {}))[1] == ROW.format(NOT_BUILT)
    assert rows(make_table("", TARGETS[::-1], {}))[0] == ROW.format(NOT_BUILT)


def test_image_that_is_built_has_its_size_in_thousand_million_bytes() -> None:
    assert rows(make_table("", TARGETS, {OTHER: 5_740_000_000}))[1] == ROW.format("5.7 GB")


def test_size_stays_where_the_image_is_not_here() -> None:
    written = make_table("", TARGETS, {TOY: 10**9, OTHER: 2 * 10**9})
    assert make_table(written, TARGETS, {}) == written
    assert rows(make_table(written, TARGETS, {OTHER: 3 * 10**9})) == [rows(written)[0], ROW.format("3.0 GB")]


def test_size_of_another_framework_version_is_not_kept() -> None:
    written = make_table("", TARGETS, {OTHER: 2 * 10**9})
    newer = replace(TARGETS[1], labels={**LABELS, "org.dlc.framework.version": "2.1"})
    assert rows(make_table(written, [newer], {})) == [ROW.replace("2.0 |", "2.1 |").format(NOT_BUILT)]


def test_image_that_left_the_buildspec_loses_its_row() -> None:
    assert rows(make_table(make_table("", TARGETS, {}), TARGETS[1:], {})) == [ROW.format(NOT_BUILT)]


def test_an_unsupported_image_is_marked() -> None:
    old = replace(TARGETS[1], labels={**LABELS, "org.dlc.unsupported": "too old"})
    assert "| debian-trixie, unsupported |" in rows(make_table("", [old], {}))[0]


def test_only_what_stands_between_the_markers_is_written() -> None:
    text = update_table(f"before\n{BEGIN}old\n{END}after\n", TARGETS, {})
    assert text == f"before\n{BEGIN}{make_table('', TARGETS, {})}{END}after\n"
    assert update_table(text, TARGETS, {}) == text


def test_the_readme_has_the_markers() -> None:
    text = (find_root() / README).read_text()
    assert text.count(BEGIN) == text.count(END) == 1
