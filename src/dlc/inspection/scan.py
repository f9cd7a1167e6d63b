"""Asks every source of advisories about an image and judges the answers: what `scan` reports and `push` refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from dlc.buildspec.models import ScanException
from dlc.core.checkout import PROJECT, PROJECT_EXCEPTIONS
from dlc.core.environment import cache_folder, find_ca_bundle, read_proxies
from dlc.core.errors import ImageError, ProcessError
from dlc.debian.suites import SUITES
from dlc.engine.docker_client import Engine
from dlc.inspection import advisories
from dlc.inspection.advisories import EXCEPTIONS, Answer, Finding, Verdict, judge_findings
from dlc.inspection.facts import Facts


@dataclass(frozen=True)
class Scan:
    """The answers about an image, and what they come to."""

    ref: str
    answers: tuple[Answer, ...]
    verdict: Verdict


def scan_image(
    engine: Engine, facts: Facts, exceptions: Sequence[ScanException], environment: Mapping[str, str], today: date,
    say: Callable[[str], None] = lambda _: None,
) -> Scan:  # fmt: skip
    """Ask the index, Debian and the calendar. A dump that the user names answers for a source that cannot be asked.

    `say` is told which source is asked.
    """
    ca = find_ca_bundle(environment)
    cache = cache_folder()
    say("known vulnerabilities of Python packages")
    python = advisories.ask_pip_audit(facts, ca)
    if python.unanswered and (dump := advisories.fetch_dump(advisories.OSV, environment, cache, ca)):
        python = advisories.search_osv_dump(facts, dump)
    say("pending security updates of Debian packages")
    debian = advisories.ask_apt(engine, facts, read_proxies(environment), ca)
    if debian.unanswered and (dump := advisories.fetch_dump(advisories.TRACKER, environment, cache, ca)):
        debian = advisories.search_tracker_dump(
            facts, dump, advisories.read_stated_day(advisories.TRACKER, environment)
        )
    answers = (python, debian, ask_suite(facts, today))
    findings = [finding for answer in answers for finding in answer.findings]
    return Scan(facts.ref, answers, judge_findings(findings, exceptions, today))


def ask_suite(facts: Facts, today: date) -> Answer:
    """Tell whether the image's Debian still gets security updates: without them no source has more to say."""
    suite = SUITES.get(facts.suite)
    source = "security support of the Debian release"
    if suite is None:
        return Answer(source, (), 0, ())
    ended = (Finding(suite.name, facts.os, "DLC-END-OF-LIFE", (), "a later release"),) if today > suite.until else ()
    return Answer(f"{source} (until {suite.until})", ended, 1, ())


def as_dict(found: Scan) -> dict[str, object]:
    """Return the scan as a value for JSON."""
    verdict = found.verdict
    pairs = {
        name: [
            {**asdict(finding), "exception": exception.model_dump()} for finding, exception in getattr(verdict, name)
        ]
        for name in ("excepted", "expired")
    }
    unused = [exception.model_dump() for exception in verdict.unused]
    return {"ref": found.ref, "answers": [asdict(answer) for answer in found.answers],
            "open": [asdict(finding) for finding in verdict.open], **pairs, "unused_exceptions": unused}  # fmt: skip


def parse_scan(value: Any) -> Scan:
    """Return the scan that `as_dict` made a value of; its answers without the findings, which the verdict has.

    Raises ValueError for another value.
    """
    try:
        excepted, expired = (
            tuple((_parse_finding(row), ScanException.model_validate(row["exception"])) for row in value[name])
            for name in ("excepted", "expired")
        )
        verdict = Verdict(tuple(map(_parse_finding, value["open"])), excepted, expired, ())
        answers = [Answer(str(each["source"]), (), int(each["asked"]), tuple(each["unknown"]), str(each["unanswered"]),
                          str(each.get("day", ""))) for each in value["answers"]]  # fmt: skip
        return Scan(str(value["ref"]), tuple(answers), verdict)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError("JSON that `dlc scan --json` did not print") from None


def _parse_finding(row: Any) -> Finding:
    """Return the finding of a row. Raises LookupError, TypeError, ValueError for another one."""
    texts = [*(row[key] for key in ("package", "version", "advisory", "fix")), *row["aliases"]]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a finding with other values than texts")
    package, version, advisory, fix, *aliases = texts
    return Finding(package, version, advisory, tuple(aliases), fix)


def require_clean(found: Scan) -> None:
    """Raise ImageError for findings that no exception covers, ProcessError if a source could not be asked."""
    verdict = found.verdict
    if verdict.against:
        names = ", ".join(dict.fromkeys(finding.package for finding in verdict.against))
        raise ImageError(
            f"{found.ref}: expected no known vulnerability, found {len(verdict.open)} open and {len(verdict.expired)} "
            f"whose exception has expired: {names[:200]}",
            "newer versions (Python: dlc lock GLOB, Debian: dlc update debian --write) and a new build, "
            f"or an exception with reason, owner and expiry in {EXCEPTIONS}; in a project, in {PROJECT_EXCEPTIONS} "
            f"beside {PROJECT} (dlc help accounting)",
        )
    if unanswered := [answer for answer in found.answers if answer.unanswered]:
        raise ProcessError(
            "\n".join(f"{answer.source}: could not be asked: {answer.unanswered}" for answer in unanswered),
            f"scan where they can be reached, or name dumps of them in {advisories.OSV} and {advisories.TRACKER}",
        )
