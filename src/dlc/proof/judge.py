"""Judges an image by what is attached to it, a policy and a checkout: what is proven, and every refusal. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from dlc.core.errors import DlcError
from dlc.core.labels import ID, KEY, PLATFORM, REVISION
from dlc.inspection.advisories import NO_DAY
from dlc.proof.names import find_names, list_name_faults
from dlc.proof.opening import Evidence, Opened, Refusal, Signed, Verifier, open_evidence
from dlc.proof.policy import Policy
from dlc.proof.provenance import Origin, read_origin
from dlc.proof.results import ScanResult, parse_time, read_scan, read_tests
from dlc.proof.statement import BILL, NAMES, PROVENANCE, SCAN, TESTS, Predicate

# Clocks of two machines differ by less.
SKEW = timedelta(minutes=5)
SHOWN_DIGITS = 12
MOST_NAMED = 5
# The content key that the sources here give to an image of this origin; None if they say nothing of such images.
# Raises DlcError if they should say it, and build no such image.
BuildKey = Callable[[Origin], str | None]
# Why that key may differ although the sources are the same: other tools; empty for the same tools.
Explain = Callable[[Origin], str]
T = TypeVar("T")
NO_SOURCES = "the sources", "run it in the checkout that the image was built from"
NO_NAME = "the name", "no signed provenance says it"


@dataclass(frozen=True)
class Subject:
    """The image that a signed provenance describes. `names`: all that it was pushed as."""

    id: str
    names: tuple[str, ...]
    sets: tuple[str, ...] = ()
    platform: str = ""
    revision: str = ""
    key: str = ""

    def __str__(self) -> str:
        said = [self.platform, self.revision and f"commit {_shorten(self.revision)}"]
        said.append(self.key and f"content key {self.key[:SHOWN_DIGITS]}")
        words = shlex.join([self.id, *(word for text in self.sets for word in ("--set", text))])
        return ", ".join([words, *filter(None, said)])


def _shorten(revision: str) -> str:
    """Return the first digits of a commit, with the mark of changed files."""
    commit, mark, _ = revision.partition("-dirty")
    return commit[:SHOWN_DIGITS] + mark


@dataclass(frozen=True)
class Verdict:
    """A line for each kind of proof that holds, and the reasons to refuse the image; no reason if it passes."""

    proven: tuple[tuple[str, str], ...]
    refusals: tuple[Refusal, ...]
    # None if no provenance was read.
    subject: Subject | None = None
    # What was not compared, and why or how it can be.
    unchecked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Chosen(Generic[T]):
    """What a signed provenance says, and whether nothing speaks against it."""

    said: T
    signer: str
    holds: bool


class Judgement:
    """Collects proofs and refusals while the statements are looked at in turn."""

    def __init__(self, opened: Opened, policy: Policy, now: datetime, explain: Explain = lambda _: "") -> None:
        self.opened = opened
        self.explain = explain
        self.policy = policy
        self.now = now
        # Only a provenance says from which sources and by which builder an image is.
        is_traced = policy.sources != "any" or bool(policy.builders)
        self.required = {*policy.require, *(("provenance",) if is_traced else ())}
        self.proven: list[tuple[str, str]] = []
        self.refusals: list[Refusal] = []
        self.unchecked: list[tuple[str, str]] = []

    def make_verdict(self, subject: Subject | None) -> Verdict:
        """Return what was found."""
        return Verdict(tuple(self.proven), tuple(self.refusals), subject, tuple(self.unchecked))

    def prove(self, name: str, text: str) -> None:
        """Keep what is proven."""
        self.proven.append((name, text))

    def refuse(self, name: str, text: str) -> None:
        """Keep a reason to refuse the image."""
        self.refusals.append(Refusal(name, text))

    def find(self, kind: str) -> Sequence[Signed]:
        """Return the statements of a kind; without a statement that the policy wants, the image is refused."""
        found = self.opened.find(kind)
        if not found and NAMES[kind] in self.required:
            self.refusals.append(self.opened.explain(kind))
        return found

    def read_all(self, kind: str, read: Callable[[Predicate], T]) -> Iterator[tuple[T, str]]:
        """Yield what each statement of a kind says, and its signer.

        If no statement can be read and the policy wants one, the image is refused.
        """
        unread: list[Refusal] = []
        count = 0
        for signed in self.find(kind):
            try:
                said = read(signed.statement.predicate)
            except ValueError as error:
                unread.append(Refusal(f"{NAMES[kind]}-unreadable", f"expected one that dlc wrote, found {error}"))
                continue
            count += 1
            yield said, signed.signer
        if unread and not count and NAMES[kind] in self.required:
            self.refusals.append(unread[0])

    def choose_provenance(
        self, read: Callable[[Predicate], T], list_faults: Callable[[T], Iterable[Refusal]]
    ) -> Chosen[T] | None:
        """Return a provenance that nothing speaks against.

        If there are others only, the image is refused for the faults of the first.
        """
        faulty: list[tuple[Chosen[T], list[Refusal]]] = []
        for said, signer in self.read_all(PROVENANCE, read):
            if not (found := list(list_faults(said))):
                return Chosen(said, signer, holds=True)
            faulty.append((Chosen(said, signer, holds=False), found))
        if not faulty:
            return None
        chosen, refusals = faulty[0]
        self.refusals.extend(refusals)
        return chosen


def judge(
    evidence: Evidence, verifiers: Sequence[Verifier], policy: Policy, build_key: BuildKey, now: datetime,
    name: str = "", explain: Explain = lambda _: "",
) -> Verdict:  # fmt: skip
    """Judge an image. `build_key` is asked only if the policy compares the image with the sources here.

    `name` is the name by which the image was asked for, empty if that was its digest.
    """
    judgement = Judgement(open_evidence(evidence, verifiers), policy, now, explain)
    judgement.unchecked += note_unread(evidence)
    for kind, said in NAMES.items():
        if kind not in (PROVENANCE, BILL, SCAN, TESTS) and said in policy.require and (found := judgement.find(kind)):
            judgement.prove(said, found[0].signer)
    _judge_age(judgement, evidence)
    subject = _judge_provenance(judgement, evidence, build_key, name)
    if "bill" in policy.require:
        _judge_bill(judgement, evidence)
    if "scan" in policy.require:
        _judge_scan(judgement)
    if "tests" in policy.require:
        _judge_tests(judgement)
    return judgement.make_verdict(subject)


def note_unread(evidence: Evidence) -> list[tuple[str, str]]:
    """Return what is attached to an image and cannot be read, as what was not compared."""
    return [(f"what is attached as {digest}", f"it cannot be read: {why}") for digest, why in evidence.unread]


def _judge_provenance(judgement: Judgement, evidence: Evidence, build_key: BuildKey, name: str) -> Subject | None:
    """Return the image that a provenance describes; a provenance that no policy requires is looked at too."""
    compared: list[Origin] = []

    def compare(origin: Origin) -> str | None:
        if key := build_key(origin):
            compared.append(origin)
        return key

    found = judgement.choose_provenance(
        read_origin, lambda origin: _list_faults(origin, judgement, evidence, compare, name)
    )
    if found is None:
        judgement.unchecked += [NO_SOURCES, *([NO_NAME] if name else [])]
        return None
    origin = found.said
    if found.holds:
        judgement.prove("provenance", f"builder {origin.builder}, {found.signer}")
        if name:
            judgement.prove("name", name)
        if origin in compared:
            judgement.prove("sources", "the sources here give the same content key")
        else:
            judgement.unchecked.append(NO_SOURCES)
    names = find_names(origin, evidence.labels)
    return Subject(origin.id, names, origin.sets, origin.platform, origin.revision, origin.key)


def _list_faults(
    origin: Origin, judgement: Judgement, evidence: Evidence, build_key: BuildKey, name: str
) -> Iterator[Refusal]:
    """Yield the faults of a provenance."""
    policy = judgement.policy
    own = {ID: origin.id, KEY: origin.key, PLATFORM: origin.platform, REVISION: origin.revision}
    for label, said in own.items():
        if (found := evidence.labels.get(label, "")) != said:
            yield Refusal(
                "provenance-contradicts-image", f"expected {label} {said} as its provenance says, found {found!r}"
            )
            return
    yield from list_name_faults(name, find_names(origin, evidence.labels))
    yield from list_builder_faults(policy, origin.builder)
    key = None
    if policy.sources == "checkout":
        try:
            key = build_key(origin)
        except DlcError as error:
            yield Refusal("sources-unknown", f"expected an image that these sources build, found: {error.message}")
            return
    # Equal content keys say what it was built from, also of a folder that is in no repository.
    if policy.sources != "any" and (origin.is_changed or not (origin.is_clean or key)):
        yield Refusal("sources-changed", f"expected an image of a commit, found sources {origin.revision}")
    elif key and key != origin.key:
        why = judgement.explain(origin)
        yield Refusal(
            "sources-differ",
            f"expected content key {key[:SHOWN_DIGITS]} as the sources here give it to {origin.id}, "
            f"found {origin.key[:SHOWN_DIGITS]} of commit {origin.commit[:SHOWN_DIGITS]}{f'; {why}' if why else ''}",
        )


def list_builder_faults(policy: Policy, builder: str) -> Iterator[Refusal]:
    """Yield the faults of a builder."""
    if policy.builders and not any(fnmatchcase(builder, glob) for glob in policy.builders):
        yield Refusal("builder-not-allowed", f"expected {' or '.join(policy.builders)}, found {builder}")


def _judge_age(judgement: Judgement, evidence: Evidence) -> None:
    try:
        created = parse_time(evidence.created)
    except ValueError:
        judgement.refuse("image-without-date", f"expected the image's date, found {evidence.created!r}")
        return
    _require_recent(judgement, "image", created, judgement.policy.image_days)


def _require_recent(judgement: Judgement, name: str, moment: datetime, most_days: int) -> None:
    """Refuse a date before the policy's limit, and a date after today."""
    age = judgement.now - moment
    if age < -SKEW:
        judgement.refuse(
            f"{name}-from-the-future", f"expected a time before {judgement.now:%F %R}, found {moment:%F %R}"
        )
    elif most_days and age > timedelta(days=most_days):
        judgement.refuse(f"{name}-too-old", f"expected at most {most_days} days, found {age.days} ({moment:%F})")


def _judge_bill(judgement: Judgement, evidence: Evidence) -> None:
    found = judgement.find(BILL)
    if not found:
        return
    signed = [one.statement.predicate for one in found]
    for data in evidence.bills:
        try:
            is_signed = json.loads(data) in signed
        except (ValueError, RecursionError):
            is_signed = False
        if not is_signed:
            judgement.refuse(
                "bill-swapped", "expected beside the image the bill of materials that is signed, found another one"
            )
            return
    packages = signed[0].get("packages")
    count = len(packages) if isinstance(packages, list) else 0
    judgement.prove("bill", f"{count} packages, {found[0].signer}")


def _judge_scan(judgement: Judgement) -> None:
    """Look at the newest scan: older scans of the same image do not count."""
    scans = sorted(judgement.read_all(SCAN, read_scan), key=lambda pair: pair[0].finished)
    if not scans:
        return
    scan, signer = scans[-1]
    before = len(judgement.refusals)
    if scan.open:
        named = ", ".join(scan.open[:MOST_NAMED])
        judgement.refuse("scan-found", f"expected no open vulnerability, found {len(scan.open)}: {named}")
    late = {name: day for name, day in scan.expiries.items() if day < judgement.now.date()}
    for name, day in late.items():
        judgement.refuse("exception-expired", f"expected the exception of {name} to hold today, found its end {day}")
    if scan.unanswered:
        judgement.refuse("scan-incomplete", f"expected an answer of each source, found none of {scan.unanswered[0]}")
    _require_recent(judgement, "scan", scan.finished, judgement.policy.scan_days)
    _require_recent_data(judgement, scan)
    if len(judgement.refusals) == before:
        judgement.prove("scan", f"{scan.finished:%F}, none open, {len(scan.expiries)} excepted, {signer}")
        sources = [f"{source}, {f'data of {day}' if day else 'asked then'}" for source, day in scan.sources]
        if sources:
            judgement.prove("scanned by", "; ".join(sources))


def _require_recent_data(judgement: Judgement, scan: ScanResult) -> None:
    """Refuse a scan by data that are older than the policy allows: a scan of today by a dump of last year."""
    most_days = judgement.policy.scan_days
    for source, day in scan.sources if most_days else ():
        if day == NO_DAY:
            judgement.refuse("scan-too-old", f"expected data of at most {most_days} days, found no day of {source}")
        elif day and (age := (judgement.now.date() - date.fromisoformat(day)).days) > most_days:
            judgement.refuse(
                "scan-too-old", f"expected data of at most {most_days} days, found {age} ({day}) of {source}"
            )


def _judge_tests(judgement: Judgement) -> None:
    runs = sorted(judgement.read_all(TESTS, read_tests), key=lambda pair: pair[0].finished)
    if not runs:
        return
    run, signer = runs[-1]
    if run.failed:
        named = ", ".join(run.failed[:MOST_NAMED])
        judgement.refuse("tests-failed", f"expected that all tests passed, found {len(run.failed)} failed: {named}")
    elif not run.passed:
        judgement.refuse("tests-empty", "expected tests that passed, found none")
    else:
        judgement.prove("tests", f"{run.passed} passed on {run.finished:%F}, {signer}")
