"""scan and advisories: what counts, what is excepted until when, and that no answer is never a clean image."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from dlc.buildspec.models import ScanException
from dlc.cli.scan import as_text
from dlc.core.checkout import PROJECT_EXCEPTIONS, read_project
from dlc.core.errors import ImageError, ProcessError, SpecError
from dlc.core.process import Completed
from dlc.inspection.advisories import (
    EXCEPTIONS,
    Answer,
    Finding,
    Verdict,
    judge_findings,
    read_apt,
    read_exceptions,
    read_pip_audit,
)
from dlc.inspection.scan import Scan, as_dict, ask_suite, require_clean
from harness.image_facts import specimen_facts
from harness.specimen import changed, specimen

TODAY = date(2026, 11, 20)
FOUND = Finding("requests", "2.19.0", "PYSEC-2018-28", ("CVE-2018-18074",), "2.20.0")
AUDIT = json.dumps({
    "dependencies": [
        {"name": "Requests", "version": "2.19.0", "vulns": [
            {"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"], "aliases": ["CVE-2018-18074"]}]},
        {"name": "six", "version": "1.17.0", "vulns": []},
        {"name": "mine", "skip_reason": "Dependency not found"},
    ], "fixes": [],
})  # fmt: skip
APT = """\
Inst libssl3 [3.0.1-1] (3.0.2-1 Debian-Security:12/stable-security [amd64])
Inst tzdata [2026a] (2026b Debian:12.9/stable [all])
Conf libssl3 (3.0.2-1 Debian-Security:12/stable-security [amd64])
"""


def exception(advisory: str = "CVE-2018-18074", package: str = "", days: int = 0) -> ScanException:
    expires = (TODAY + timedelta(days=days)).isoformat()
    return ScanException(advisory=advisory, package=package, reason="not reachable", owner="ada", expires=expires)


def done(stdout: str = "", stderr: str = "", code: int = 0) -> Completed:
    return Completed((), code, stdout, stderr)


def require(answer: Answer, verdict: Verdict) -> None:
    require_clean(Scan("image", (answer,), verdict))


def test_a_finding_without_exception_is_open() -> None:
    verdict = judge_findings([FOUND], [exception("CVE-0"), exception(package="flask")], TODAY)
    assert verdict.open == (FOUND,)
    assert len(verdict.unused) == 2


@pytest.mark.parametrize(("days", "holds"), [(1, True), (0, True), (-1, False)])
def test_an_exception_holds_to_the_end_of_its_last_day(days: int, holds: bool) -> None:
    verdict = judge_findings([FOUND], [exception(days=days)], TODAY)
    assert (len(verdict.excepted), len(verdict.expired)) == (int(holds), int(not holds))
    assert verdict.open == verdict.unused == ()


def test_pip_audits_findings_are_read_and_packages_it_does_not_know_are_named() -> None:
    answer = read_pip_audit(done(AUDIT, code=1), 3)
    assert answer.findings == (FOUND,)
    assert answer.unknown == ("mine",)
    assert answer.unanswered == ""


@pytest.mark.parametrize(
    "completed",
    [
        done(stderr="ERROR: Connection refused", code=1),
        done(json.dumps({"dependencies": [{"name": "six", "skip_reason": "not found"}], "fixes": []})),
    ],
)
def test_an_index_that_cannot_be_asked_is_no_clean_image(completed: Completed) -> None:
    answer = read_pip_audit(completed, 1)
    assert answer.unanswered
    with pytest.raises(ProcessError, match="could not be asked"):
        require(answer, judge_findings([], [], TODAY))
    assert "NOT ASKED" in as_text(Scan("image", (answer,), judge_findings([], [], TODAY)))


@pytest.mark.parametrize("text", ["{", "[]", "null", "", '{"dependencies": null}'])
def test_answer_of_pip_audit_that_is_cut_off_is_no_clean_image(text: str) -> None:
    assert read_pip_audit(done(text), 1).unanswered


def test_security_updates_count_and_other_updates_do_not() -> None:
    answer = read_apt(done(APT), 2)
    assert answer.findings == (Finding("libssl3", "3.0.1-1", "libssl3-update", (), "3.0.2-1"),)


def test_apt_without_network_gives_no_answer() -> None:
    assert "Temporary failure" in read_apt(done(stderr="Err\nTemporary failure resolving", code=100), 2).unanswered


@pytest.mark.parametrize("exceptions", [[], [exception(days=-1)]])
def test_open_and_expired_findings_fail_the_scan(exceptions: list[ScanException]) -> None:
    answer = Answer("index", (FOUND,), 1, ())
    verdict = judge_findings([FOUND], exceptions, TODAY)
    with pytest.raises(ImageError, match="expected no known vulnerability"):
        require(answer, verdict)
    assert json.loads(json.dumps(as_dict(Scan("image", (answer,), verdict))))["answers"][0]["asked"] == 1


def test_excepted_findings_pass_and_say_who_answers_for_them() -> None:
    answer = Answer("index", (FOUND,), 1, ())
    verdict = judge_findings([FOUND], [exception(days=9)], TODAY)
    require(answer, verdict)
    assert "until 2026-11-29 by ada: not reachable" in as_text(Scan("image", (answer,), verdict))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exceptions:\n  - {advisory: CVE-1, reason: x, owner: y}\n", "2:5: exceptions[0].expires: expected a value"),
        ("exceptions:\n  - {advisory: CVE-1, reason: x, owner: y, expires: soon}\n", "2:53: exceptions[0].expires: "
         "expected a date"),
        ("exceptions:\n  - {advisory: CVE-1, reason: '', owner: y, expires: 2026-01-01}\n", "2:31: exceptions[0].rea"),
    ],
)  # fmt: skip
def test_mistakes_in_the_exceptions_file_are_told_with_their_place(text: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_exceptions(changed(specimen(), EXCEPTIONS, text))
    assert f"{EXCEPTIONS}:{expected}" in str(caught.value)


def test_a_project_has_exceptions_of_its_own_beside_those_of_the_recipes() -> None:
    text = "exceptions:\n  - {advisory: CVE-1, reason: x, owner: y, expires: 2026-12-31}\n"
    project = changed(specimen(), PROJECT_EXCEPTIONS, text)
    both = changed(project, EXCEPTIONS, text.replace("CVE-1", "CVE-2"))
    assert [each.advisory for each in read_exceptions(both)] == ["CVE-2", "CVE-1"]
    with pytest.raises(SpecError, match=r"scan-exceptions\.yml:1:1: "):
        read_exceptions(changed(both, PROJECT_EXCEPTIONS, "exception: []\n"))


def test_a_project_s_exceptions_are_read_from_the_folder_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "dlc.yml").write_text("name: demo\n")
    assert PROJECT_EXCEPTIONS not in read_project(tmp_path)
    (tmp_path / PROJECT_EXCEPTIONS).write_text("exceptions: []\n")
    assert read_project(tmp_path)[PROJECT_EXCEPTIONS].data == b"exceptions: []\n"


def test_no_exceptions_file_means_no_exceptions() -> None:
    assert read_exceptions(specimen()) == ()


@pytest.mark.parametrize(("day", "over"), [("2028-06-30", False), ("2028-07-01", True)])
def test_a_debian_release_without_security_support_is_a_finding(day: str, over: bool) -> None:
    answer = ask_suite(specimen_facts(), date.fromisoformat(day))
    assert [finding.package for finding in answer.findings] == (["bookworm"] if over else [])
    verdict = judge_findings(answer.findings, [exception("DLC-END-OF-LIFE")], TODAY)
    assert bool(verdict.excepted) == over


def test_another_distribution_is_not_judged_by_debians_calendar() -> None:
    facts = replace(specimen_facts(), os="Ubuntu 24.04.1 LTS")
    assert ask_suite(facts, TODAY).findings == ()
