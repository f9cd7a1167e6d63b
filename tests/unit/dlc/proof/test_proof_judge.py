"""proof.judge: which of several statements counts, and what is required though no policy names it.

tests/process/dlc/test_verify_tampered.py has every way to tamper with an image in a registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import dlc
from dlc.core.errors import SelectorError
from dlc.inspection.advisories import NO_DAY, Answer
from dlc.proof.dsse import sign_statement
from dlc.proof.judge import NO_SOURCES, Verdict, judge
from dlc.proof.keys import PrivateKey
from dlc.proof.opening import Evidence, KeyVerifier
from dlc.proof.policy import Policy
from dlc.proof.provenance import Origin, explain_other_tools, read_origin
from dlc.proof.results import make_scan_predicate, make_test_predicate
from dlc.proof.statement import BILL, PROVENANCE, SCAN, TESTS, Predicate, make_statement
from dlc.proof.tested import make_record
from harness.signed_image import CLEAN, DOCUMENT, NOW, SignedImage

DIGEST = f"sha256:{'5' * 64}"
KEY = PrivateKey("cosign.key", ec.generate_private_key(ec.SECP256R1()))
IMAGE = SignedImage()
SAID = IMAGE.list_statements()
LOOSE = Policy(require=(), sources="any")


def sign(*pairs: tuple[str, Predicate]) -> tuple[bytes, ...]:
    return tuple(sign_statement(make_statement("team", DIGEST, kind, said), KEY) for kind, said in pairs)


def run_of(*, passed: tuple[str, ...], failed: tuple[str, ...] = (), days: int = 0) -> tuple[str, Predicate]:
    return TESTS, make_test_predicate(make_record(DIGEST, passed, failed, NOW - timedelta(days=days)))


def build_same(origin: Origin) -> str:
    """A checkout that builds what the provenance says."""
    return origin.key


def judged(policy: Policy, *bundles: bytes, evidence: Evidence | None = None) -> Verdict:
    given = evidence or Evidence("team", DIGEST, IMAGE.created.isoformat(), IMAGE.labels)
    return judge(replace(given, bundles=bundles), [KeyVerifier(KEY.public)], policy, build_same, NOW)


def names(verdict: Verdict) -> Iterator[str]:
    return (refusal.name for refusal in verdict.refusals)


def test_a_provenance_from_before_it_named_its_uv_says_so() -> None:
    said = json.loads(json.dumps(SAID[PROVENANCE]))
    origin = read_origin(said)
    assert explain_other_tools(origin, IMAGE.tree) == ""
    del said["runDetails"]["builder"]["version"]["uv"]
    told = explain_other_tools(read_origin(said), IMAGE.tree)
    assert f"made by dlc {dlc.__version__} with a uv that it does not record, and this is" in told
    del said["runDetails"]["builder"]["version"]
    assert "made by dlc (unknown) with a uv" in explain_other_tools(read_origin(said), IMAGE.tree)


@pytest.mark.parametrize(
    "policy",
    [Policy(require=()), Policy(require=(), sources="clean"), Policy(require=(), sources="any", builders=("*",))],
    ids=["checkout", "clean", "builders"],
)
def test_what_is_asked_of_the_sources_or_the_builder_asks_for_a_provenance(policy: Policy) -> None:
    assert list(names(judged(policy))) == ["provenance-missing"]
    assert not judged(policy, *sign((PROVENANCE, SAID[PROVENANCE]))).refusals


def test_a_policy_that_asks_nothing_refuses_nothing() -> None:
    assert judged(LOOSE) == Verdict((), (), unchecked=(NO_SOURCES,))


def test_one_right_provenance_is_enough_and_of_wrong_ones_the_first_is_told() -> None:
    wrong = SignedImage(revision="f" * 40).list_statements()[PROVENANCE]
    both = sign((PROVENANCE, wrong), (PROVENANCE, SAID[PROVENANCE]))
    assert not judged(Policy(require=("provenance",)), *both).refusals
    assert list(names(judged(Policy(require=()), both[0]))) == ["provenance-contradicts-image"]


def test_the_newest_tests_count() -> None:
    bad, good = run_of(passed=("a",), failed=("b",), days=1), run_of(passed=("a", "b"))
    policy = LOOSE.model_copy(update={"require": ("tests",)})
    assert not judged(policy, *sign(bad, good)).refusals
    assert list(names(judged(policy, *sign(run_of(passed=("a",), days=2), bad)))) == ["tests-failed"]
    assert list(names(judged(policy, *sign(run_of(passed=()))))) == ["tests-empty"]


def test_an_image_without_a_date_is_refused() -> None:
    undated = Evidence("team", DIGEST, "", {})
    assert list(names(judged(LOOSE, evidence=undated))) == ["image-without-date"]


def test_a_scan_by_another_tool_does_not_count() -> None:
    policy = LOOSE.model_copy(update={"require": ("scan",)})
    foreign = {**SAID[SCAN], "scanner": {**SAID[SCAN]["scanner"], "uri": "https://scanner.example"}}
    assert list(names(judged(policy, *sign((SCAN, foreign))))) == ["scan-unreadable"]
    assert not judged(policy, *sign((SCAN, foreign), (SCAN, SAID[SCAN]))).refusals


def scan_by(day: str, unanswered: str = "") -> tuple[str, Predicate]:
    """A clean scan of today by a source with data of another day."""
    answer = Answer("a dump", (), 3, (), unanswered, day)
    return SCAN, make_scan_predicate(replace(CLEAN, answers=(answer,)), NOW, NOW)


@pytest.mark.parametrize(
    ("days_ago", "most_days", "refused"),
    [(29, 30, []), (31, 30, ["scan-too-old"]), (400, 0, []), (None, 30, ["scan-too-old"]), (None, 0, [])],
)
def test_the_day_of_a_scan_is_that_of_its_data(days_ago: int | None, most_days: int, refused: list[str]) -> None:
    policy = LOOSE.model_copy(update={"require": ("scan",), "scan_days": most_days})
    day = NO_DAY if days_ago is None else f"{NOW - timedelta(days=days_ago):%F}"
    said = scan_by(day)
    assert said[1]["scanner"]["db"]["lastUpdate"][:10] == (f"{NOW:%F}" if days_ago is None else day)
    found = judged(policy, *sign(said))
    assert list(names(found)) == refused
    assert ("scanned by", f"a dump, data of {day}") in found.proven or refused
    assert "a dump" in str((*found.refusals, *found.proven))


def test_a_scan_with_a_source_that_gave_no_answer_does_not_pass() -> None:
    policy = LOOSE.model_copy(update={"require": ("scan",)})
    assert list(names(judged(policy, *sign(scan_by("", "offline"))))) == ["scan-incomplete"]


def test_a_signed_scan_with_a_day_that_is_none_is_unreadable() -> None:
    policy = LOOSE.model_copy(update={"require": ("scan",)})
    kind, said = scan_by("")
    said["scanner"]["db"]["sources"][0]["day"] = "soon"
    assert list(names(judged(policy, *sign((kind, said))))) == ["scan-unreadable"]


@pytest.mark.parametrize("bill", [b"", b"[" * 100_000, b"{}", json.dumps({**DOCUMENT, "name": "other"}).encode()])
def test_every_bill_beside_the_image_is_the_signed_one(bill: bytes) -> None:
    policy = LOOSE.model_copy(update={"require": ("bill",)})
    right = json.dumps(DOCUMENT, indent=1).encode()
    evidence = Evidence("team", DIGEST, IMAGE.created.isoformat(), {}, bills=(right, right))
    signed = sign((BILL, DOCUMENT))
    assert not judged(policy, *signed, evidence=evidence).refusals
    swapped = replace(evidence, bills=(right, bill))
    assert list(names(judged(policy, *signed, evidence=swapped))) == ["bill-swapped"]


def test_the_checkouts_own_fault_is_told_as_the_reason() -> None:
    def build_nothing(origin: Origin) -> str:
        raise SelectorError(f"{origin.asked}: no such image")

    signed = sign((PROVENANCE, SAID[PROVENANCE]))
    evidence = Evidence("team", DIGEST, IMAGE.created.isoformat(), IMAGE.labels, bundles=signed)
    verdict = judge(evidence, [KeyVerifier(KEY.public)], Policy(require=()), build_nothing, NOW)
    [refusal] = verdict.refusals
    assert refusal.name == "sources-unknown"
    assert "no such image" in refusal.text
