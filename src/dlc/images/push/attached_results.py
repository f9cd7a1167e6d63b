"""Whether a scan and tests of an image are attached to it and have passed: read from its in-toto statements.

Who signed a statement is not asked here: that is the work of `dlc verify`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dlc.core.errors import ImageError
from dlc.images.push.registry.repository import Manifest, Repository, make_digest

# Types of predicates, whatever their version.
SCAN, TESTS = "https://in-toto.io/attestation/vulns/", "https://in-toto.io/attestation/test-result/"
PASSED = "PASSED"
# States that `dlc scan` gives a finding which nothing excuses.
FAILING = ("open", "expired")
ATTACH = "dlc test and dlc push attach them; a vulnerability may have an exception that has not expired"
# A document that is larger is none of these.
LARGEST_BYTES = 8 << 20


@dataclass(frozen=True)
class Result:
    """What one statement says. The later of two counts."""

    finished: str
    # Why it did not pass; empty if it passed.
    fault: str


def require_proofs(repository: Repository, image: Manifest) -> None:
    """Raise ImageError unless a passing scan and passing tests of this image are attached to it."""
    faults = []
    results = list(_read_results(repository, image))
    for name, kind in (("scan", SCAN), ("tests", TESTS)):
        found = [result for found_kind, result in results if found_kind == kind]
        last = max(found, key=lambda result: result.finished, default=Result("", "none attached"))
        if last.fault:
            faults.append(f"{name}: {last.fault}")
    if faults:
        raise ImageError(
            f"{repository.name}@{image.digest}: expected a passing scan and passing tests, found {'; '.join(faults)}",
            ATTACH,
        )


def _read_results(repository: Repository, image: Manifest) -> Iterator[tuple[str, Result]]:
    """Read the results of scans and tests that are about this image and no other."""
    for descriptor in repository.referrers(image.digest):
        document = repository.manifest(str(descriptor.get("digest")))
        for layer in document.content["layers"] if document else ():
            data = repository.blob(layer["digest"]) if layer["size"] <= LARGEST_BYTES else None
            if data is None or make_digest(data) != layer["digest"]:
                continue
            statement = parse_statement(data)
            kind = str(statement.get("predicateType"))
            if _is_about(statement, image):
                if kind.startswith(SCAN):
                    yield SCAN, read_scan(statement)
                elif kind.startswith(TESTS):
                    yield TESTS, read_tests(statement)


def parse_statement(data: bytes) -> Mapping[str, Any]:
    """Return the in-toto statement in a document: alone, in a DSSE envelope, or in a sigstore bundle; empty if none."""
    try:
        content = json.loads(data)
        envelope = content.get("dsseEnvelope", content)
        found = json.loads(base64.b64decode(envelope["payload"])) if "payload" in envelope else content
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("predicate"), dict) else {}


def _is_about(statement: Mapping[str, Any], image: Manifest) -> bool:
    wanted = image.digest.removeprefix("sha256:")
    try:
        return any(subject["digest"].get("sha256") == wanted for subject in statement["subject"])
    except (KeyError, TypeError, AttributeError):
        return False


def read_scan(statement: Mapping[str, Any]) -> Result:
    """Read the result of a scan: a finding is excused only if `dlc scan` says so."""
    predicate = statement["predicate"]
    try:
        rows = predicate["scanner"].get("result") or []
        against = [str(row["id"]) for row in rows if _find_state(row) in FAILING]
        finished = str(predicate["metadata"]["scanFinishedOn"])
    except (KeyError, TypeError, AttributeError):
        return Result("", "JSON that is no scan")
    return Result(finished, f"{len(against)} findings: {', '.join(against[:3])}" if against else "")


def _find_state(row: Mapping[str, Any]) -> str:
    states = [said["state"] for said in row.get("annotations") or () if isinstance(said, dict) and "state" in said]
    return str(states[0]) if states else FAILING[0]


def read_tests(statement: Mapping[str, Any]) -> Result:
    """Read the result of tests."""
    predicate = statement["predicate"]
    failed = [str(name) for name in predicate.get("failedTests") or ()]
    said = [found.get("annotations") or {} for found in predicate.get("configuration") or () if isinstance(found, dict)]
    finished = max((str(each.get("finishedOn", "")) for each in said if isinstance(each, dict)), default="")
    if predicate.get("result") == PASSED and not failed:
        return Result(finished, "")
    return Result(finished, f"{predicate.get('result')}: {', '.join(failed[:3]) or 'no test is named'}")
