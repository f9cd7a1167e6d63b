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
from dlc.engine.connection import Engine
from dlc.images.inspection.facts import Facts
from dlc.images.inspection.scan import Scan
from dlc.images.inspection.vex import make_image_url, make_vex
from dlc.images.proof import signing
from dlc.images.proof.provenance import Sources, find_builder, make_provenance
from dlc.images.proof.results import make_scan_predicate, make_test_predicate
from dlc.images.proof.signing import Signer
from dlc.images.proof.statement import BILL, PROVENANCE, SCAN, TESTS, VEX, Predicate
from dlc.images.proof.tested import read_record
from dlc.images.push.push import Order
from dlc.images.push.registry.repository import Manifest, Repository
from dlc.plan.plan import Plan

Prove = Callable[[Repository, Manifest], None]


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

    def make_prove(self, order: Order, reference: str, document: Callable[[], bytes], scanned: Scanned | None) -> Prove:
        """Return what attaches the statements about one image to its manifest. `document` makes its SPDX document."""

        def prove(repository: Repository, image: Manifest) -> None:
            bill = document()
            signing.require_bill(repository, image, bill)
            said = self._list_statements(order, bill)
            if scanned:
                said |= _list_findings(scanned, make_image_url(reference, image.digest))
            signing.attach_proof(repository, image, reference, self.signer, said)

        return prove

    def _list_statements(self, order: Order, bill: bytes) -> dict[str, Predicate]:
        [variant] = [variant for variant in self.variants if variant.id == order.id]
        sources = Sources(
            plan=self.plan.without([other for other in self.plan.selected if other != order.id]),
            tree=self.tree,
            asked=(variant.plain or variant).id,
            sets=self.sets,
            address=signing.read_address(self.workspace.root),
        )
        labels = order.inspected["Config"]["Labels"]
        said = {
            PROVENANCE: make_provenance(labels, sources, find_builder(os.environ), self.engine.version),
            BILL: json.loads(bill),
        }
        if tested := read_record(cache_folder(), order.inspected["Id"]):
            said[TESTS] = make_test_predicate(tested)
        return said


def _list_findings(scanned: Scanned, product: str) -> dict[str, Predicate]:
    """Return the scan, and what exceptions say about its findings."""
    finished = datetime.now(UTC)
    scan = make_scan_predicate(scanned.found, scanned.started, finished)
    vex = make_vex(scanned.facts, product, scanned.found.verdict, finished)
    return {SCAN: scan, **({VEX: vex} if vex else {})}
