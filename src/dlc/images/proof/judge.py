"""Judges an image by what is attached to it, a policy and a checkout: what is proven, and every refusal. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TypeVar

from dlc.core.errors import DlcError
from dlc.core.labels import ID, KEY, PLATFORM, REVISION
from dlc.images.proof.opening import Evidence, Opened, Refusal, Signed, Verifier, open_evidence
from dlc.images.proof.policy import Policy
from dlc.images.proof.provenance import Origin, read_origin
from dlc.images.proof.results import parse_time, read_scan, read_tests
from dlc.images.proof.statement import BILL, NAMES, PROVENANCE, SCAN, TESTS, Predicate

# Clocks of two machines differ by less.
SKEW = timedelta(minutes=5)
SHOWN_DIGITS = 12
MOST_NAMED = 5
# The content key that a checkout builds for an origin; raises DlcError if it builds no such image.
BuildKey = Callable[[Origin], str]
# Why that key may be another one although the sources are the same: other tools; empty for the same tools.
Explain = Callable[[Origin], str]
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """What was proven, a line for each kind of proof, and the reasons to refuse the image, none if it passes."""

    proven: tuple[tuple[str, str], ...]
    refusals: tuple[Refusal, ...]


class _Judgement:
    """Collects what is proven and what is refused while the proofs are looked at one after the other."""

    def __init__(self, opened: Opened, policy: Policy, now: datetime, explain: Explain) -> None:
        self.opened = opened
        self.explain = explain
        self.policy = policy
        self.now = now
        # Only a provenance says from which sources and by which builder an image is.
        is_traced = policy.sources != "any" or bool(policy.builders)
        self.required = {*policy.require, *(("provenance",) if is_traced else ())}
        self.proven: list[tuple[str, str]] = []
        self.refusals: list[Refusal] = []

    def prove(self, name: str, text: str) -> None:
        self.proven.append((name, text))

    def refuse(self, name: str, text: str) -> None:
        self.refusals.append(Refusal(name, text))

    def find(self, kind: str) -> Sequence[Signed]:
        """Return the statements of a kind; if there are none and the policy wants one, the image is refused."""
        found = self.opened.find(kind)
        if not found and NAMES[kind] in self.required:
            self.refusals.append(self.opened.explain(kind))
        return found

    def read_all(self, kind: str, read: Callable[[Predicate], T]) -> Iterator[tuple[T, str]]:
        """Yield what each statement of a kind says, and its signer; the image is refused if none can be read."""
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
        if unread and not count:
            self.refusals.append(unread[0])


def judge(
    evidence: Evidence, verifiers: Sequence[Verifier], policy: Policy, build_key: BuildKey, now: datetime,
    explain: Explain = lambda _: "",
) -> Verdict:  # fmt: skip
    """Judge an image. `build_key` is asked only if the policy compares the image with the checkout."""
    judgement = _Judgement(open_evidence(evidence, verifiers), policy, now, explain)
    for kind, name in NAMES.items():
        if kind not in (PROVENANCE, BILL, SCAN, TESTS) and name in policy.require and (found := judgement.find(kind)):
            judgement.prove(name, found[0].signer)
    _judge_age(judgement, evidence)
    if "provenance" in judgement.required:
        _judge_provenance(judgement, evidence, build_key)
    if "bill" in policy.require:
        _judge_bill(judgement, evidence)
    if "scan" in policy.require:
        _judge_scan(judgement)
    if "tests" in policy.require:
        _judge_tests(judgement)
    return Verdict(tuple(judgement.proven), tuple(judgement.refusals))


def _judge_provenance(judgement: _Judgement, evidence: Evidence, build_key: BuildKey) -> None:
    """Take a provenance that nothing speaks against; if there is none, refuse the image for the first one's faults."""
    faults: list[list[Refusal]] = []
    for origin, signer in judgement.read_all(PROVENANCE, read_origin):
        found = list(_list_faults(origin, judgement, evidence, build_key))
        if not found:
            text = f"commit {origin.commit[:SHOWN_DIGITS]}, content key {origin.key[:SHOWN_DIGITS]}"
            judgement.prove("provenance", f"{text}, builder {origin.builder}, {signer}")
            if judgement.policy.sources == "checkout":
                judgement.prove("sources", "this checkout builds the same content key")
            return
        faults.append(found)
    if faults:
        judgement.refusals.extend(faults[0])


def _list_faults(origin: Origin, judgement: _Judgement, evidence: Evidence, build_key: BuildKey) -> Iterator[Refusal]:
    """Yield what speaks against a provenance."""
    policy = judgement.policy
    own = {ID: origin.id, KEY: origin.key, PLATFORM: origin.platform, REVISION: origin.revision}
    for label, said in own.items():
        if (found := evidence.labels.get(label, "")) != said:
            yield Refusal(
                "provenance-contradicts-image", f"expected {label} {said} as its provenance says, found {found!r}"
            )
            return
    if policy.builders and not any(fnmatchcase(origin.builder, glob) for glob in policy.builders):
        yield Refusal("builder-not-allowed", f"expected {' or '.join(policy.builders)}, found {origin.builder}")
    if policy.sources != "any" and not origin.is_clean:
        yield Refusal("sources-changed", f"expected an image of a commit, found sources {origin.revision}")
    elif policy.sources == "checkout":
        yield from _compare_with_checkout(origin, build_key, judgement.explain)


def _compare_with_checkout(origin: Origin, build_key: BuildKey, explain: Explain) -> Iterator[Refusal]:
    try:
        wanted = build_key(origin)
    except DlcError as error:
        yield Refusal("sources-unknown", f"expected an image that this checkout can build, found: {error.message}")
        return
    if wanted != origin.key:
        why = explain(origin)
        yield Refusal(
            "sources-differ",
            f"expected content key {wanted[:SHOWN_DIGITS]} as this checkout builds {origin.id}, "
            f"found {origin.key[:SHOWN_DIGITS]} of commit {origin.commit[:SHOWN_DIGITS]}{f'; {why}' if why else ''}",
        )


def _judge_age(judgement: _Judgement, evidence: Evidence) -> None:
    try:
        created = parse_time(evidence.created)
    except ValueError:
        judgement.refuse("image-without-date", f"expected the image's date, found {evidence.created!r}")
        return
    _require_recent(judgement, "image", created, judgement.policy.image_days)


def _require_recent(judgement: _Judgement, name: str, moment: datetime, most_days: int) -> None:
    """Refuse what is older than the policy allows, and what is of a later day than today."""
    age = judgement.now - moment
    if age < -SKEW:
        judgement.refuse(
            f"{name}-from-the-future", f"expected a time before {judgement.now:%F %R}, found {moment:%F %R}"
        )
    elif most_days and age > timedelta(days=most_days):
        judgement.refuse(f"{name}-too-old", f"expected at most {most_days} days, found {age.days} ({moment:%F})")


def _judge_bill(judgement: _Judgement, evidence: Evidence) -> None:
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


def _judge_scan(judgement: _Judgement) -> None:
    """Look at the newest scan: what an older one said of the same image does not count any more."""
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
    _require_recent(judgement, "scan", scan.finished, judgement.policy.scan_days)
    if len(judgement.refusals) == before:
        judgement.prove("scan", f"{scan.finished:%F}, none open, {len(scan.expiries)} excepted, {signer}")


def _judge_tests(judgement: _Judgement) -> None:
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
