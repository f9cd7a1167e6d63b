"""The results of a scan and of tests as predicates of signed statements, and how they are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

import dlc
from dlc.buildspec.models import ScanException
from dlc.core.labels import format_time
from dlc.inspection.advisories import NO_DAY, Finding
from dlc.inspection.scan import Scan
from dlc.proof.statement import Predicate

SCANNER = "urn:dlc:scan"
TESTER = "urn:dlc:test"
# What the severity of an advisory is for the sources that are asked: they name none.
NO_SEVERITY = ({"method": "none", "score": "unknown"},)


@dataclass(frozen=True)
class ScanResult:
    """What a signed scan says. `expiries`: last day of each exception that let a finding pass, by advisory."""

    finished: datetime
    open: tuple[str, ...]
    expiries: Mapping[str, date]
    # Each source with the day of its data: empty if it was asked at that time, NO_DAY if they say none.
    sources: tuple[tuple[str, str], ...] = ()
    # Sources that gave no answer.
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestResult:
    """What signed tests say."""

    # pytest would take the class for tests otherwise.
    __test__ = False

    finished: datetime
    passed: int
    failed: tuple[str, ...]


@dataclass(frozen=True)
class TestRecord:
    """The tests of one image. `image` is the digest that the engine has of it."""

    # pytest would take the class for tests otherwise.
    __test__ = False

    image: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    # RFC 3339.
    finished: str


def make_scan_predicate(found: Scan, started: datetime, finished: datetime) -> Predicate:
    """Return a scan in the form of in-toto's vulns v0.2: every finding, with the state that dlc gives it."""
    rows = [_describe_finding(*each) for each in found.verdict.list_states()]
    sources = [{"source": answer.source, "asked": answer.asked, "unanswered": answer.unanswered, "day": answer.day}
               for answer in found.answers]  # fmt: skip
    # A source without a day was asked for its state of this moment.
    days = [f"{answer.day}T00:00:00Z" for answer in found.answers if answer.day not in ("", NO_DAY)]
    return {
        "scanner": {
            "uri": SCANNER,
            "version": dlc.__version__,
            "db": {"uri": SCANNER, "lastUpdate": min([*days, format_time(finished)]), "sources": sources},
            "result": rows,
        },
        "metadata": {"scanStartedOn": format_time(started), "scanFinishedOn": format_time(finished)},
    }


def _describe_finding(state: str, finding: Finding, exception: ScanException | None) -> Mapping[str, Any]:
    said = {**asdict(finding), "aliases": list(finding.aliases), "state": state}
    annotations = [said, {"exception": exception.model_dump()}] if exception else [said]
    return {"id": finding.advisory, "severity": list(NO_SEVERITY), "annotations": annotations}


def read_scan(predicate: Predicate) -> ScanResult:
    """Read a signed scan. Raises ValueError for one that dlc did not write."""
    try:
        if predicate["scanner"]["uri"] != SCANNER:
            raise ValueError(f"a scan by {predicate['scanner']['uri']}")
        rows = [(row["id"], row["annotations"]) for row in predicate["scanner"]["result"]]
        # An expired exception lets nothing pass: its finding is as open as others.
        sources = predicate["scanner"].get("db", {}).get("sources", ())
        closed = {name: said[1]["exception"] for name, said in rows if said[0]["state"] == "excepted"}
        return ScanResult(
            finished=parse_time(predicate["metadata"]["scanFinishedOn"]),
            open=tuple(f"{said[0]['package']} {name}" for name, said in rows if said[0]["state"] != "excepted"),
            expiries={name: date.fromisoformat(exception["expires"]) for name, exception in closed.items()},
            sources=tuple((str(each["source"]), _read_day(each.get("day", ""))) for each in sources),
            unanswered=tuple(str(each["source"]) for each in sources if each["unanswered"]),
        )
    except (KeyError, TypeError, AttributeError, IndexError):
        raise ValueError("JSON that is no scan of dlc") from None


def _read_day(text: Any) -> str:
    """Return the day of a source's data. Raises ValueError for another text."""
    return str(text) if text in ("", NO_DAY) else str(date.fromisoformat(text))


def make_test_predicate(record: TestRecord) -> Predicate:
    """Return the results of the tests in the form of in-toto's test-result v0.1.

    The form has no time: it is an annotation of the configuration.
    """
    configuration = {"uri": TESTER, "annotations": {"finishedOn": record.finished, "image": record.image}}
    return {
        "result": "FAILED" if record.failed else "PASSED",
        "configuration": [configuration],
        "passedTests": list(record.passed),
        "failedTests": list(record.failed),
    }


def read_tests(predicate: Predicate) -> TestResult:
    """Read signed results of tests. Raises ValueError for some that dlc did not write."""
    try:
        [configuration] = [found for found in predicate["configuration"] if found["uri"] == TESTER]
        failed = tuple(map(str, predicate.get("failedTests", ())))
        if predicate["result"] != "PASSED" and not failed:
            failed = (str(predicate["result"]),)
        finished = parse_time(configuration["annotations"]["finishedOn"])
        return TestResult(finished, len(predicate.get("passedTests", ())), failed)
    except (KeyError, TypeError, AttributeError):
        raise ValueError("JSON that is no result of dlc test") from None


def parse_time(text: Any) -> datetime:
    """Parse a time of RFC 3339. Raises ValueError for other text, and for a time without a zone."""
    found = datetime.fromisoformat(str(text))
    if found.tzinfo is None:
        raise ValueError(f"a time without a zone, {text}")
    return found
