"""buildspec.lifecycle: who is warned of an end of patch, and from which day on."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import list_support_warnings, require_supported
from dlc.cli import push, run
from dlc.cli.list import note_unsupported
from dlc.core.checkout import Tree
from dlc.core.errors import ImageError, SpecError, UsageError
from dlc.plan.plan import make_plan
from harness.specimen import COMPAT, PYTORCH, PYTORCH_PATH, TORCH_ID, changed, locked, specimen, unlocked

END = date(2027, 11, 20)


def with_end(day: str) -> Tree:
    return changed(unlocked(), PYTORCH_PATH, PYTORCH.replace("job: training", f'job: training\neop: "{day}"'))


@pytest.mark.parametrize(
    ("days_left", "words"),
    [(91, ""), (90, "in 90 days"), (0, "in 0 days"), (-1, "1 days ago")],
)
def test_the_warning_begins_90_days_before_the_end(days_left: int, words: str) -> None:
    found = list_support_warnings(load_variants(with_end(END.isoformat())), END - timedelta(days=days_left))
    assert [TORCH_ID in line and words in line for line in found] == ([True] if words else [])


def test_images_without_an_end_are_never_warned_of() -> None:
    assert list_support_warnings(load_variants(specimen()), date(2999, 1, 1)) == []


UNSUPPORTED = changed(unlocked(), PYTORCH_PATH, PYTORCH.replace("job: training", "job: training\nunsupported: too old"))


def test_an_unsupported_image_is_said_to_be_so_by_plan_list_and_label() -> None:
    tree = locked(UNSUPPORTED)
    variants = load_variants(tree)
    assert list_support_warnings(variants, date(2026, 1, 1)) == [
        f"{TORCH_ID}: unsupported: too old: move to a newer version"
    ]
    assert note_unsupported(variants) == ["pytorch 2.13 is unsupported: too old"]
    assert make_plan(tree).target(TORCH_ID).labels["org.dlc.unsupported"] == "too old"
    assert "org.dlc.unsupported" not in make_plan(specimen()).target(TORCH_ID).labels


def test_only_unsupported_images_are_refused_by_push() -> None:
    with pytest.raises(ImageError, match=rf"^{TORCH_ID}: unsupported: too old\n  remedy: .*--unsupported$"):
        require_supported(load_variants(UNSUPPORTED))
    require_supported(load_variants(specimen()))


def test_push_asks_for_a_flag_before_it_looks_for_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "read_workspace", lambda _: locked(UNSUPPORTED))
    monkeypatch.setattr(push, "connect", lambda: pytest.fail("asked for an engine"))
    with pytest.raises(ImageError, match="unsupported: too old"):
        run(["push", "pytorch-*", "--to", "registry.example/team"])
    with pytest.raises(pytest.fail.Exception, match="asked for an engine"):
        run(["push", "pytorch-*", "--to", "registry.example/team", "--unsupported"])
    with pytest.raises(UsageError, match="--to team: expected REGISTRY/REPO"):  # before an engine is looked for
        run(["push", "pytorch-*", "--to", "team", "--unsupported"])


LIMIT = """\
  - when: {suite: bookworm}
    then: {eop: "<=2027-11-20"}
    why: Debian ends there
"""


@pytest.mark.parametrize(("day", "late"), [("2027-11-20", False), ("2027-11-21", True), ("2028-01-01", True)])
def test_no_end_of_patch_is_after_the_end_of_what_the_image_stands_on(day: str, late: bool) -> None:
    tree = changed(with_end(day), "buildspec/compat.yml", COMPAT + LIMIT)
    if not late:
        assert load_variants(tree)
        return
    with pytest.raises(SpecError, match=rf"^{PYTORCH_PATH}:4:6: eop: expected <=2027-11-20 because Debian ends there"):
        load_variants(tree)


def test_a_rule_can_demand_that_an_image_is_marked_unsupported() -> None:
    rule = '  - when: {suite: bookworm}\n    then: {unsupported: "?*"}\n    why: it has ended\n'
    only_torch = {path: file for path, file in UNSUPPORTED.items() if "tensorflow/2" not in path}
    assert load_variants(changed(only_torch, "buildspec/compat.yml", COMPAT + rule))
    with pytest.raises(SpecError, match=r"unsupported: expected \?\* because it has ended"):
        load_variants(changed(unlocked(), "buildspec/compat.yml", COMPAT + rule))


def test_a_limit_is_a_day_of_the_calendar() -> None:
    for wrong in ("<=2027-02-30", "2027-02-28", ">=2027-02-28"):
        with pytest.raises(SpecError, match=r"buildspec/compat.yml:12:17: rules\[3\].then.eop: expected a"):
            load_variants(changed(unlocked(), "buildspec/compat.yml", COMPAT + LIMIT.replace("<=2027-11-20", wrong)))


@pytest.mark.parametrize(
    ("day", "expected"), [("2027-02-30", "a value that exists"), ("soon", "a date such as 2026-11-20")]
)
def test_a_day_that_does_not_exist_is_an_error_with_its_place(day: str, expected: str) -> None:
    with pytest.raises(SpecError, match=rf"{PYTORCH_PATH}:4:6: eop: expected {expected}.*, found '{day}'"):
        load_variants(with_end(day))
