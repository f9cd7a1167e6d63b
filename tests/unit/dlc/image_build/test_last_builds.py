"""What `dlc build` says before it starts: images, reasons, sizes and the time of the last build."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.image_build.last_builds import FOLDER, LastBuild, announce, read_build, record_build
from dlc.plan.plan import make_plan
from harness.specimen import TORCH_ID, specimen


def said(last: LastBuild | None) -> list[str]:
    tree = specimen()
    plan, [variant] = make_plan(tree, [TORCH_ID]), load_variants(tree, [TORCH_ID])
    return announce(plan.decisions({}), [variant], {variant.ref: last})


def test_an_image_that_was_never_built_here_is_said_with_its_budget() -> None:
    [line] = said(None)
    assert line.startswith(f"builds {TORCH_ID}: no image dlc/pytorch:")
    [variant] = load_variants(specimen(), [TORCH_ID])
    megabytes = round(variant.settings.budget.bytes / 10**6)
    assert line.endswith(f"; at most {megabytes} MB; time unknown, not built on this host before")


def test_an_image_that_was_built_is_said_with_its_size_and_time() -> None:
    assert said(LastBuild(142.4, 1, 1743407885))[0].endswith("; about 1743 MB; last time 142 s")
    assert said(LastBuild(142.4, 3, 1743407885))[0].endswith("; last time 142 s with 2 more")


def test_what_is_not_built_is_not_announced() -> None:
    tree = specimen()
    plan, variants = make_plan(tree, [TORCH_ID]), load_variants(tree, [TORCH_ID])
    target = plan.target(TORCH_ID)
    assert announce(plan.decisions({target.tags[0]: target.key}), variants, {}) == []


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    build = LastBuild(142.5, 2, 17)
    assert read_build(tmp_path, "dlc/toy:1") is None
    record_build(tmp_path, "dlc/toy:1", build)
    record_build(tmp_path, "other/toy:1", LastBuild(1.0, 1, 1))
    assert read_build(tmp_path, "dlc/toy:1") == build
    for path in (tmp_path / FOLDER).glob("*.json"):
        path.write_text('{"seconds": []')
    assert read_build(tmp_path, "dlc/toy:1") is None


@pytest.mark.parametrize("text", ["", "[]", "null", '{"seconds": [], "images": 1, "size": 1}'])
def test_no_form_of_a_damaged_record_ends_a_build(text: str, tmp_path: Path) -> None:
    record_build(tmp_path, "dlc/toy:1", LastBuild(1.0, 1, 1))
    for path in (tmp_path / FOLDER).glob("*.json"):
        path.write_text(text)
    assert read_build(tmp_path, "dlc/toy:1") is None
