"""What is asked of an image in a registry before it is used or copied: who may sign, the judgement, and its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dlc.core.errors import ProofError, UsageError
from dlc.images.proof.dsse import Bundle
from dlc.images.proof.evidence import list_images, read_evidence
from dlc.images.proof.judge import BuildKey, Explain, Verdict, judge
from dlc.images.proof.keyless import make_verifier
from dlc.images.proof.keys import read_public_key
from dlc.images.proof.opening import Evidence, KeyVerifier, Verifier
from dlc.images.proof.policy import Policy
from dlc.images.push.registry.repository import Repository

Judged = tuple[Evidence, Verdict]


@dataclass(frozen=True)
class Anybody:
    """Whoever may push to the registry: for those who ask what is said of an image, and not by whom."""

    name: str = "not checked who signed it"

    def is_named_in(self, _bundle: Bundle) -> bool:
        """Tell that any bundle is by somebody."""
        return True

    def accepts(self, _bundle: Bundle) -> bool:
        """Take any bundle."""
        return True

    def accepts_payload(self, _signature: bytes, _payload: bytes) -> bool:
        """Take any signature."""
        return True


def find_verifiers(policy: Policy, file: Path | None, key: Path | None) -> tuple[Verifier, ...]:
    """Return who may sign by a policy of this file and a key; nobody if neither names somebody."""
    found: list[Verifier] = [KeyVerifier(read_public_key(key))] if key else []
    for signer in policy.signers:
        path = (file or Path()).parent / signer.key
        is_key = bool(signer.key)
        found.append(KeyVerifier(read_public_key(path)) if is_key else make_verifier(signer.identity, signer.issuer))
    return tuple(found)


def require_verifiers(verifiers: Sequence[Verifier], verb: str) -> None:
    """Raise UsageError if nobody may sign."""
    if not verifiers:
        raise UsageError(f"{verb}: expected who may sign, found nobody", "--key FILE, or signers in --policy FILE")


def judge_images(
    repository: Repository, registry: str, reference: str, verifiers: Sequence[Verifier], policy: Policy,
    build_key: BuildKey, explain: Explain = lambda _: "",
) -> list[Judged]:  # fmt: skip
    """Read and judge the image of a reference, or those of all platforms if it means an index.

    Raises RegistryError if there is none, ProofError for bytes that do not have their digest.
    """
    found = []
    for name in list_images(repository, registry, reference):
        evidence = read_evidence(repository, registry, name)
        found.append((evidence, judge(evidence, verifiers, policy, build_key, datetime.now(UTC), explain)))
    return found


def require_proven(judged: Sequence[Judged], remedy: str) -> None:
    """Raise ProofError with every reason to refuse an image."""
    lines = []
    for evidence, verdict in judged:
        if verdict.refusals:
            lines += [f"{evidence.reference}: refused", *(f"  {refusal}" for refusal in verdict.refusals)]
    if lines:
        raise ProofError("\n".join(lines), remedy)
