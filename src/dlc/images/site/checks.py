"""What was checked of an image, in words: for its page, and for the table of all images. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dlc.buildspec.models import ScanException
from dlc.images.inspection.advisories import Finding
from dlc.images.inspection.scan import Scan
from dlc.images.site.elements import Child, make_table, tag
from dlc.images.site.frame import make_badge
from dlc.images.site.values import Advisory, Entry, ScanResult

STATES = {"open": "bad", "expired": "bad", "excepted": "note"}
UNKNOWN = "no record"


def describe_checks(entry: Entry) -> Iterator[tuple[Child, Child]]:
    """Yield each check with its result."""
    failed = entry.checks.tests.failed if entry.checks.tests else ()
    yield "tests", (show_tests(entry), [tag("div", tag("code", name)) for name in failed])
    yield "scan", show_scan(entry)
    yield "reproducible", show_rebuild(entry)
    yield "signed by", show_signature(entry)


def show_tests(entry: Entry) -> Child:
    """Return how many tests passed, or did not."""
    result = entry.checks.tests
    if result is None:
        return make_badge("plain", UNKNOWN)
    if result.failed:
        return make_badge("bad", f"{len(result.failed)} failed"), _on_day(result.day)
    skipped = f", {result.skipped} skipped" if result.skipped else ""
    return make_badge("good", f"{result.passed} passed"), skipped, _on_day(result.day)


def show_scan(entry: Entry) -> Child:
    """Return whether the last scan was clean. A source that gave no answer is never a clean image."""
    result = entry.checks.scan
    if result is None:
        return make_badge("plain", UNKNOWN)
    tail = (_on_day(result.day), _warn_of_other(entry, result.digest))
    unanswered = make_badge("note", "not complete") if result.unanswered else None
    if result.against:
        return make_badge("bad", f"{len(result.against)} open"), " ", unanswered, tail
    if unanswered:
        return unanswered, tail
    excepted = len(result.advisories)
    badge = make_badge(_judge(entry, result.digest), "clean")
    return badge, f", {excepted} excepted" if excepted else None, tail


def show_rebuild(entry: Entry) -> Child:
    """Return whether two builds gave the same bytes, and whether the second was another builder's."""
    result = entry.checks.rebuild
    if result is None:
        return make_badge("plain", UNKNOWN)
    digest = _choose_digest(entry, result.digest, result.config)
    kind, word = (_judge(entry, digest), "identical") if result.identical else ("bad", "differs")
    by = " by a second builder" if result.config else " on one engine"
    return make_badge(kind, word), by, _on_day(result.day), _warn_of_other(entry, digest)


def show_signature(entry: Entry) -> Child:
    """Return who signed the image, or why it was refused."""
    result = entry.checks.signature
    if result is None:
        return make_badge("plain", UNKNOWN)
    digest = _choose_digest(entry, result.digest, result.config)
    tail = (_on_day(result.day), _warn_of_other(entry, digest))
    if result.refusals:
        return make_badge("bad", "refused"), " ", ", ".join(result.refusals), tail
    return make_badge(_judge(entry, digest), result.signed_by), tail


def _choose_digest(entry: Entry, digest: str, config: str) -> str:
    """Return the digest by which an image is known here: a pushed one has another one, and the same configuration."""
    return config if config and _is_of_this(entry, config) else digest


def _on_day(day: str) -> Child:
    return (" ", tag("span", day, class_="day")) if day else None


def _judge(entry: Entry, digest: str) -> str:
    """Return the colour of a good result: what was found of another digest proves nothing of this one."""
    return "good" if _is_of_this(entry, digest) else "plain"


def _is_of_this(entry: Entry, digest: str) -> bool:
    """Tell whether a record is of the digest that the engine has, or has pushed or pulled, or names none."""
    built = entry.built
    if not digest or built is None or digest == built.facts.digest:
        return True
    return any(name.endswith(f"@{digest}") for name in built.pushed)


def _warn_of_other(entry: Entry, digest: str) -> Child:
    if _is_of_this(entry, digest):
        return None
    return " ", make_badge("note", f"of another digest, {digest.removeprefix('sha256:')[:12]}")


def render_vulnerabilities(entry: Entry) -> Child:
    """Return what the last scan found, each with its dates."""
    result = entry.checks.scan
    if result is None:
        return tag("p", "No scan is recorded: ", tag("code", "dlc site DIR --scan"), " asks now.")
    sources = [tag("li", _describe_source(result, index)) for index in range(len(result.answers))]
    head = tag("p", f"Asked on {result.day}:" if result.day else "Asked:"), tag("ul", sources)
    if not result.advisories:
        return head, tag("p", "They know of no fault in a package of this image.")
    rows = [_list_cells(advisory, entry.memory.findings.get(finding_key(advisory), result.day))
            for advisory in result.advisories]  # fmt: skip
    heads = ("package", "version", "advisory", "state", "first seen", "fixed in", "exception")
    return head, make_table(heads, rows, class_="cards")


def _describe_source(result: ScanResult, index: int) -> Child:
    answer = result.answers[index]
    if answer.unanswered:
        return f"{answer.source}: ", make_badge("note", "no answer"), f" {answer.unanswered}"
    return f"{answer.source}: knows {answer.asked - len(answer.unknown)} of {answer.asked} packages"


def _list_cells(advisory: Advisory, first: str) -> tuple[Child, ...]:
    until = f"until {advisory.until}, {advisory.exception}" if advisory.exception else "\u2013"
    return (
        advisory.package,
        advisory.version,
        ", ".join(advisory.names),
        make_badge(STATES[advisory.state], advisory.state),
        first or "\u2013",
        advisory.fix or "nothing yet",
        until,
    )


def finding_key(advisory: Advisory) -> str:
    """Return the words by which the catalogue remembers an advisory."""
    return f"{advisory.names[0]} {advisory.package}"


def summarize_scan(found: Scan, day: str, digest: str) -> ScanResult:
    """Return what a scan of this day comes to."""
    verdict = found.verdict
    rows = [_make_advisory("open", finding) for finding in verdict.open]
    rows += [_make_advisory("expired", *pair) for pair in verdict.expired]
    rows += [_make_advisory("excepted", *pair) for pair in verdict.excepted]
    answers = tuple(replace(answer, findings=()) for answer in found.answers)
    return ScanResult(day, digest, answers, tuple(rows))


def _make_advisory(state: str, finding: Finding, exception: ScanException | None = None) -> Advisory:
    why, until = (f"{exception.owner}: {exception.reason}", exception.expires) if exception else ("", "")
    names = (finding.advisory, *finding.aliases)
    return Advisory(state, finding.package, finding.version, names, finding.fix, why, until)
