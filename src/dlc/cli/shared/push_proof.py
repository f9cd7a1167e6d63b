"""What `dlc push --sign` says of an image: where it comes from, what is in it, and what scan and tests found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree, Workspace
from dlc.core.environment import cache_folder
from dlc.core.image_references import split_registry
from dlc.core.platforms import split_suffix
from dlc.engine.docker_client import Engine
from dlc.inspection.facts import Facts
from dlc.inspection.scan import Scan
from dlc.inspection.vex import make_image_url, make_vex
from dlc.plan.plan import Plan
from dlc.proof import signing
from dlc.proof.index import make_index_provenance
from dlc.proof.judge import Subject
from dlc.proof.names import list_names
from dlc.proof.opening import Verifier
from dlc.proof.policy import Policy
from dlc.proof.provenance import Sources, find_builder, make_provenance
from dlc.proof.requirement import judge_images, require_proven
from dlc.proof.results import make_scan_predicate, make_test_predicate
from dlc.proof.signing import Signer
from dlc.proof.statement import BILL, PROVENANCE, SCAN, TESTS, VEX, Predicate
from dlc.proof.tested import read_record
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.platform_index import PlatformIndex
from dlc.registry.push import Order
from dlc.registry.referrers import Document

# What an image has to have before an index over it is signed.
IN_INDEX = Policy(require=("signature", "provenance"), sources="any")


@dataclass(frozen=True)
class Scanned:
    """A scan, what it was of, and when it was asked for."""

    found: Scan
    facts: Facts
    started: datetime


@dataclass(frozen=True)
class Prover:
    """Signs what is known of the images of one push."""

    signer: Signer
    workspace: Workspace
    tree: Tree
    engine: Engine
    plan: Plan
    variants: Sequence[Variant]
    sets: Sequence[str]

    def make_proof(
        self, order: Order, reference: str, document: Callable[[], bytes], scanned: Scanned | None
    ) -> ImageProof:  # fmt: skip
        """Return what attaches the statements about one image. `document` makes its SPDX document."""
        return ImageProof(self, order, reference, document, scanned)

    def list_statements(self, order: Order, bill: bytes) -> dict[str, Predicate]:
        """Return what is known of an image, by type of predicate."""
        [variant] = [variant for variant in self.variants if variant.id == order.id]
        sources = Sources(
            plan=self.plan.without([other for other in self.plan.selected if other != order.id]),
            tree=self.tree,
            asked=(variant.plain or variant).id,
            sets=self.sets,
            address=signing.read_address(self.workspace.root),
            names=list_names(order.framework, order.tags),
        )
        labels = order.inspected["Config"]["Labels"]
        said = {
            PROVENANCE: make_provenance(labels, sources, find_builder(os.environ), self.engine.version),
            BILL: json.loads(bill),
        }
        if tested := read_record(cache_folder(), order.inspected["Id"]):
            said[TESTS] = make_test_predicate(tested)
        return said


@dataclass
class ImageProof:
    """Attaches the statements about one image, and about the index over it and the images of other platforms."""

    prover: Prover
    order: Order
    reference: str
    document: Callable[[], bytes]
    scanned: Scanned | None
    # Who signs, as known once the image is signed.
    verifiers: tuple[Verifier, ...] = ()

    def prove(self, repository: Repository, image: Manifest) -> tuple[Document, ...]:
        """Attach what is known of the image; return that."""
        bill = self.document()
        signing.require_bill(repository, image, bill)
        said = self.prover.list_statements(self.order, bill)
        if self.scanned:
            said |= _list_findings(self.scanned, make_image_url(self.reference, image.digest))
        attached = signing.attach_proof(repository, image, self.reference, self.prover.signer, said)
        self.verifiers = (attached.signer,)
        return attached.documents

    def prove_index(self, repository: Repository, index: PlatformIndex) -> tuple[Document, ...]:
        """Sign an index, and the names that it gets; return what is attached.

        Raises ProofError if an image in it is not signed as the one that is pushed: its tag in the registry may mean
        the image of anybody who may push there.
        """
        registry = split_registry(self.reference)[0]
        for platform, image in index.images.items():
            tag = index.own[platform]
            judged = judge_images(repository, registry, image, tag, self.verifiers, IN_INDEX, lambda _: None)
            require_proven(judged, f"no tag was moved; push the image of {platform} with the same --sign, then this")
        subject = Subject(
            split_suffix(self.order.id)[0], list_names(self.order.framework, index.tags), tuple(self.prover.sets)
        )
        digests = {platform: image.digest for platform, image in index.images.items()}
        said = {PROVENANCE: make_index_provenance(subject, self.reference, digests, find_builder(os.environ))}
        return signing.attach_proof(
            repository, index.manifest, self.reference, self.prover.signer, said
        ).documents  # fmt: skip


def _list_findings(scanned: Scanned, product: str) -> dict[str, Predicate]:
    """Return the scan, and what exceptions say about its findings."""
    finished = datetime.now(UTC)
    scan = make_scan_predicate(scanned.found, scanned.started, finished)
    vex = make_vex(scanned.facts, product, scanned.found.verdict, finished)
    return {SCAN: scan, **({VEX: vex} if vex else {})}
