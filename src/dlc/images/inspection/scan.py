"""Compares the advisories about an image with the exceptions in buildspec/scan-exceptions.yml. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dlc.buildspec.files import validate
from dlc.buildspec.models import ScanException, ScanExceptions
from dlc.buildspec.problems import raise_report
from dlc.buildspec.yaml_layers import parse
from dlc.core.checkout import Tree, text
from dlc.core.errors import SpecError

EXCEPTIONS = "buildspec/scan-exceptions.yml"


@dataclass(frozen=True, order=True)
class Finding:
    """An advisory that concerns a package of the image. `fix`: versions without the fault, if there are any."""

    package: str
    version: str
    advisory: str  # its identifier, such as PYSEC-2026-12
    aliases: tuple[str, ...]  # other identifiers of the same, such as CVE-2026-1
    fix: str


@dataclass(frozen=True)
class Answer:
    """What one source of advisories said. `unanswered`: why it gave no answer, else empty."""

    source: str
    findings: tuple[Finding, ...]
    asked: int  # packages that were asked about
    unknown: tuple[str, ...]  # packages among them that the source does not know
    unanswered: str = ""


@dataclass(frozen=True)
class Verdict:
    """Open findings, excepted and expired ones with their exceptions, and exceptions that match nothing."""

    open: tuple[Finding, ...]
    excepted: tuple[tuple[Finding, ScanException], ...]
    expired: tuple[tuple[Finding, ScanException], ...]
    unused: tuple[ScanException, ...]


def judge(findings: Sequence[Finding], exceptions: Sequence[ScanException], today: date) -> Verdict:
    """An exception is valid until the end of the day `expires`."""
    pairs = [(finding, _exception(finding, exceptions)) for finding in sorted(findings)]
    used = [exception for _, exception in pairs if exception]
    late = [(finding, e) for finding, e in pairs if e and date.fromisoformat(e.expires) < today]
    return Verdict(
        open=tuple(finding for finding, exception in pairs if exception is None),
        excepted=tuple((finding, e) for finding, e in pairs if e and (finding, e) not in late),
        expired=tuple(late),
        unused=tuple(exception for exception in exceptions if exception not in used),
    )


def _exception(finding: Finding, exceptions: Sequence[ScanException]) -> ScanException | None:
    names = {finding.advisory, *finding.aliases}
    return next((e for e in exceptions if e.advisory in names and e.package in ("", finding.package)), None)


def read_exceptions(tree: Tree) -> tuple[ScanException, ...]:
    """The exceptions file; none where there is no file. Raises SpecError with file:line:col of every mistake."""
    if EXCEPTIONS not in tree:
        return ()
    node, problems = parse(text(tree, EXCEPTIONS), EXCEPTIONS)
    raise_report(problems)
    if node is None:
        raise SpecError(f"{EXCEPTIONS}: expected YAML")
    found, problems = validate(ScanExceptions, node)
    raise_report(problems)
    return found.exceptions if found else ()
