"""What was checked of an image, in words: for its page, and for the table of all images. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dlc.buildspec.models import ScanException
from dlc.inspection.advisories import Answer, Finding
from dlc.site.elements import Child, make_table, tag
from dlc.site.frame import make_badge
from dlc.site.values import Entry

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
    return make_badge("good", f"{len(result.passed)} passed"), skipped, _on_day(result.day)


def show_scan(entry: Entry) -> Child:
    """Return whether the last scan was clean. A source that gave no answer is never a clean image."""
    result = entry.checks.scan
    if result is None:
        return make_badge("plain", UNKNOWN)
    tail = (_on_day(result.day), _warn_of_other(entry, result.digest))
    scan = result.scan
    unanswered = make_badge("note", "not complete") if any(answer.unanswered for answer in scan.answers) else None
    if scan.verdict.against:
        return make_badge("bad", f"{len(scan.verdict.against)} open"), " ", unanswered, tail
    if unanswered:
        return unanswered, tail
    excepted = len(scan.verdict.excepted)
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
    sources = [tag("li", _describe_source(answer)) for answer in result.scan.answers]
    head = tag("p", f"Asked on {result.day}:" if result.day else "Asked:"), tag("ul", sources)
    states = list(result.scan.verdict.list_states())
    if not states:
        return head, tag("p", "They know of no fault in a package of this image.")
    rows = [_list_cells(*each, entry.memory.findings.get(finding_key(each[1]), result.day)) for each in states]
    heads = ("package", "version", "advisory", "state", "first seen", "fixed in", "exception")
    return head, make_table(heads, rows, class_="cards")


def _describe_source(answer: Answer) -> Child:
    if answer.unanswered:
        return f"{answer.source}: ", make_badge("note", "no answer"), f" {answer.unanswered}"
    return f"{answer.source}: {answer.coverage}"


def _list_cells(state: str, finding: Finding, exception: ScanException | None, first: str) -> tuple[Child, ...]:
    until = f"until {exception.expires}, {exception.owner}: {exception.reason}" if exception else "\u2013"
    return (
        finding.package,
        finding.version,
        ", ".join((finding.advisory, *finding.aliases)),
        make_badge(STATES[state], state),
        first or "\u2013",
        finding.fix or "nothing yet",
        until,
    )


def finding_key(finding: Finding) -> str:
    """Return the words by which the catalogue remembers a finding."""
    return f"{finding.advisory} {finding.package}"
