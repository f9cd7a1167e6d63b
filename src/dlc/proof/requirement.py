"""What is asked of an image in a registry before it is used or copied: who may sign, the judgement, and its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dlc.core.errors import ProofError, RegistryError, UsageError
from dlc.proof.dsse import Bundle
from dlc.proof.evidence import read_attached, read_evidence
from dlc.proof.index import Member, judge_index
from dlc.proof.judge import BuildKey, Explain, Verdict, judge
from dlc.proof.keyless import make_verifier
from dlc.proof.keys import read_public_key
from dlc.proof.names import list_tags, make_name
from dlc.proof.opening import Evidence, KeyVerifier, Verifier
from dlc.proof.policy import Policy
from dlc.registry.client.repository import INDEXES, Manifest, Repository
from dlc.registry.read_image import list_platforms

Judged = tuple[Evidence, Verdict]
NO_TAG = "the name", "it was asked for by its digest, without a tag"


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
    repository: Repository, registry: str, image: Manifest, tag: str, verifiers: Sequence[Verifier], policy: Policy,
    build_key: BuildKey, explain: Explain = lambda _: "",
) -> list[Judged]:  # fmt: skip
    """Read and judge an image; or an index, and then the images of all platforms in it.

    `tag`: under which it was asked for, empty if that was its digest. Raises RegistryError if an image of the index is
    not there, ProofError for bytes that do not have their digest.
    """
    now, name = datetime.now(UTC), make_name(repository.name, tag) if tag else ""
    if image.kind not in INDEXES:
        evidence = read_evidence(repository, registry, image.digest)
        return [(evidence, _note_digest(judge(evidence, verifiers, policy, build_key, now, name, explain), tag))]
    members = []
    for digest, platform in list_platforms(image):
        evidence = read_evidence(repository, registry, digest)
        members.append(Member(platform, evidence, judge(evidence, verifiers, policy, build_key, now, explain=explain)))
    if not members:
        raise RegistryError(
            f"{registry}/{repository.name}@{image.digest}: expected images, found an index without", "push them again"
        )
    evidence = read_attached(repository, registry, image)
    verdict = judge_index(evidence, verifiers, policy, now, name, members)
    return [(evidence, _note_digest(verdict, tag)), *((each.evidence, each.verdict) for each in members)]


def _note_digest(verdict: Verdict, tag: str) -> Verdict:
    return verdict if tag else replace(verdict, unchecked=(*verdict.unchecked, NO_TAG))


def require_proven(judged: Sequence[Judged], remedy: str) -> None:
    """Raise ProofError with every reason to refuse an image."""
    lines = []
    for evidence, verdict in judged:
        if verdict.refusals:
            lines += [f"{evidence.reference}: refused", *(f"  {refusal}" for refusal in verdict.refusals)]
    if lines:
        raise ProofError("\n".join(lines), remedy)


def list_signed_tags(judged: Sequence[Judged], repository: str) -> dict[str, tuple[str, ...]]:
    """Map the digests of what was judged to the tags of this repository that its provenance names."""
    found = {evidence.digest: verdict.subject for evidence, verdict in judged}
    return {digest: list_tags(subject.names, repository) for digest, subject in found.items() if subject}
