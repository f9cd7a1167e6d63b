"""Whatever a report says in the form of one, the answer is a verdict and advice, or one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profile_reports import READS, REPORT

from dlc.__main__ import main
from dlc.core.errors import ProfileError

ROOT = Path(__file__).parents[4]
FIGURES = st.sampled_from([0, 5e-324, 1e-9, 0.03, 1, 7.5, 100, 1e15])
COUNTS = st.sampled_from([0, 1, 2, 30, 100, 10**15])
ANY = st.one_of(FIGURES, st.sampled_from([None, -1, "x", [], {}, True, float("inf"), float("nan")]))


def rank() -> st.SearchStrategy[dict[str, Any]]:
    """Make a report: what is required in its form, and anything in the place of the rest."""
    slow = st.fixed_dictionaries({"batches": ANY, "of": ANY, "share": ANY})
    work = st.fixed_dictionaries(
        {"batches": COUNTS, "cpu_seconds": FIGURES, "seconds": FIGURES, "workers": COUNTS},
        optional={"queued_seconds": ANY, "slow": st.one_of(slow, ANY), "parallel": ANY,
                  "asleep_in": st.one_of(st.dictionaries(st.sampled_from(["sleep", "files", "new"]), ANY), ANY)},
    )  # fmt: skip
    cpu = st.fixed_dictionaries(
        {"usable": FIGURES, "busy": FIGURES}, optional={"host": ANY, "others": ANY, "stolen": ANY, "pressure": ANY}
    )
    return st.fixed_dictionaries(
        {"version": st.just(1), "framework": st.sampled_from(["torch", "python"]), "host": st.sampled_from("ab"),
         "steps": COUNTS, "step_seconds": FIGURES, "waiting_seconds": FIGURES, "computing_seconds": FIGURES,
         "starting_seconds": FIGURES, "batch_bytes": FIGURES, "preprocessing": work, "cpu": cpu},
        optional={"rank": ANY, "gpu": ANY, "waiting_queued_seconds": ANY, "compiling": ANY},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reports=st.lists(rank(), min_size=1, max_size=3))
def test_any_report_has_an_answer(reports: list[dict[str, Any]], tmp_path: Path) -> None:
    for old in tmp_path.glob("*"):
        old.unlink()
    for number, report in enumerate(reports):
        (tmp_path / f"rank-{number}.json").write_text(json.dumps(report))
    same = len({report["framework"] for report in reports}) == 1
    for options in ([], ["--json"], ["--on", "c5.9xlarge"], ["--on", "p3.2xlarge", "--step-ms", "20", "--json"]):
        assert main(["profile", str(tmp_path), *options]) in ((0, ProfileError.exit_code) if same else (50,))


def test_the_reports_that_other_tests_change_have_an_answer_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps(REPORT))
    assert main(["profile", str(tmp_path), "--on", "p3.2xlarge"]) == 0
    (tmp_path / "rank-0.json").write_text(json.dumps({**REPORT, **READS, "cpu": {**REPORT["cpu"], **READS["cpu"]}}))
    assert main(["profile", str(tmp_path), "--on", "p3.2xlarge"]) == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cpu": {**REPORT["cpu"], "usable": 0.0}}, 0),
        ({"waiting_seconds": 5e-324, "computing_seconds": 0.0}, ProfileError.exit_code),
    ],
)
def test_figures_that_cannot_be_divided_by_are_no_fault_of_dlc(
    changes: dict[str, Any], code: int, tmp_path: Path
) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps({**REPORT, **changes}))
    assert main(["advise", str(tmp_path), "--on", "p3.2xlarge"]) == code
