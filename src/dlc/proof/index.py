"""An index over the images of several platforms: what is signed of it, and its judgement. Pure.

Its provenance says of which images it is the index, and under which names it was pushed; the images have proofs of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dlc
from dlc.core.platforms import split_suffix
from dlc.proof.judge import NO_NAME, Judgement, Subject, Verdict, list_builder_faults, note_unread
from dlc.proof.names import list_name_faults
from dlc.proof.opening import Evidence, Refusal, Verifier, open_evidence
from dlc.proof.policy import Policy
from dlc.proof.provenance import Builder, describe_run
from dlc.proof.statement import NAMES, SIGNATURE, Predicate

INDEX_TYPE = "urn:dlc:index:1"


@dataclass(frozen=True)
class IndexOrigin:
    """What the provenance of an index says."""

    # The identifier of its images, without the platform.
    id: str
    sets: tuple[str, ...]
    names: tuple[str, ...]
    builder: str


@dataclass(frozen=True)
class Member:
    """An image in an index that was judged. `platform`: what the index says it is for."""

    platform: str
    evidence: Evidence
    verdict: Verdict


def make_index_provenance(
    subject: Subject, reference: str, digests: Mapping[str, str], builder: Builder
) -> Predicate:  # fmt: skip
    """Return the predicate for an index. `digests`: of the image of each platform in this repository."""
    materials = [
        {"uri": f"docker://{reference}", "name": platform, "digest": {"sha256": digests[platform].partition(":")[2]}}
        for platform in sorted(digests)
    ]
    return {
        "buildDefinition": {
            "buildType": INDEX_TYPE,
            "externalParameters": {"image": subject.id, "set": list(subject.sets)},
            "internalParameters": {"id": subject.id, "names": list(subject.names)},
            "resolvedDependencies": materials,
        },
        "runDetails": describe_run(builder, {"dlc": dlc.__version__}),
    }


def read_index_origin(predicate: Predicate) -> IndexOrigin:
    """Read what the provenance of an index says. Raises ValueError for one that dlc did not write."""
    try:
        definition = predicate["buildDefinition"]
        if definition["buildType"] != INDEX_TYPE:
            raise ValueError(f"a build of type {definition['buildType']}")
        inner = definition["internalParameters"]
        return IndexOrigin(
            id=str(inner["id"]),
            sets=tuple(map(str, definition["externalParameters"]["set"])),
            names=tuple(map(str, inner["names"])),
            builder=str(predicate["runDetails"]["builder"]["id"]),
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError("JSON that is no provenance of dlc") from None


def judge_index(
    evidence: Evidence, verifiers: Sequence[Verifier], policy: Policy, now: datetime, name: str,
    members: Sequence[Member],
) -> Verdict:  # fmt: skip
    """Judge an index over images that were judged. `name` is the one that it was asked for by, if it was by one."""
    judgement = Judgement(open_evidence(evidence, verifiers), policy, now)
    judgement.unchecked += note_unread(evidence)
    signature = NAMES[SIGNATURE]
    if signature in policy.require and (signed := judgement.find(SIGNATURE)):
        judgement.prove(signature, signed[0].signer)

    def list_faults(origin: IndexOrigin) -> Iterator[Refusal]:
        yield from list_name_faults(name, origin.names)
        yield from list_builder_faults(policy, origin.builder)
        yield from _list_foreign(origin.id, members)

    found = judgement.choose_provenance(read_index_origin, list_faults)
    if found is None:
        judgement.unchecked += [NO_NAME] if name else []
        return judgement.make_verdict(None)
    origin = found.said
    if found.holds:
        judgement.prove("provenance", f"builder {origin.builder}, {found.signer}")
        if name:
            judgement.prove("name", name)
        judgement.prove("index", "of " + ", ".join(f"{each.platform} {each.evidence.digest}" for each in members))
    return judgement.make_verdict(Subject(origin.id, origin.names, origin.sets))


def _list_foreign(identifier: str, members: Sequence[Member]) -> Iterator[Refusal]:
    """Yield a refusal for each image that is no image of this identifier for the platform that the index says."""
    for member in members:
        subject = member.verdict.subject
        # Its own refusals say why it has no subject.
        if subject and (split_suffix(subject.id)[0], subject.platform) != (identifier, member.platform):
            yield Refusal(
                "index-of-other-images",
                f"expected the image of {identifier} for {member.platform}, "
                f"found {subject.id} for {subject.platform} ({member.evidence.digest})",
            )
