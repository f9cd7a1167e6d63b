"""`dlc verify`: checks who signed an image in a registry, and what the signed statements say of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dlc.buildspec.matrix import load_variants
from dlc.cli.arguments import add_json, print_json, print_text, say_progress
from dlc.core import environment
from dlc.core.checkout import Tree, read_workspace
from dlc.core.errors import ProofError, UsageError
from dlc.images.proof import policy as policies
from dlc.images.proof.evidence import list_images, read_evidence
from dlc.images.proof.judge import Verdict, judge
from dlc.images.proof.keyless import make_signer
from dlc.images.proof.keys import read_public_key
from dlc.images.proof.opening import Evidence, KeySigner, Signer
from dlc.images.proof.policy import Policy
from dlc.images.proof.provenance import Origin
from dlc.images.push.registry import credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import Repository
from dlc.plan.contexts import Image
from dlc.plan.plan import plan_variants

HELP = "check who signed an image in a registry, and what is proven of it"
EXAMPLE = "dlc verify registry.example:5000/team/pytorch:2.13.0-training-cpu-py311-bookworm --key cosign.pub"
# A name of the report -> its colour.
STATES = {"REFUSED": "bad"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the reference, --key, --policy, --json."""
    parser.add_argument(
        "reference", metavar="REGISTRY/REPO:TAG", help="an image in a registry, or REGISTRY/REPO@DIGEST"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="public key of who may sign (PEM, as cosign.pub)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="who may sign, what is asked (docs/proof.md)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is proven. Raises ProofError with every reason to refuse the image."""
    policy = policies.read_policy(args.policy) if args.policy else Policy()
    signers = find_signers(policy, args.policy, args.key)
    tree = read_workspace()
    address, reference = credentials.parse_reference(args.reference)
    session = Session(
        address.url,
        address.path,
        credentials.read_credentials(address.registry),
        environment.find_ca_bundle(os.environ),
        actions="pull",
    )
    repository = Repository(session, address.path, say_progress)
    rows = []
    for name in list_images(repository, address.registry, reference):
        evidence = read_evidence(repository, address.registry, name)
        rows.append((evidence, judge(evidence, signers, policy, partial(compute_key, tree=tree), datetime.now(UTC))))
    if args.json:
        print_json([as_dict(*row) for row in rows])
    else:
        print_text("\n".join(as_text(*row) for row in rows), STATES)
    require_proven(rows)
    return 0


def require_proven(rows: Sequence[tuple[Evidence, Verdict]]) -> None:
    """Raise ProofError with every reason to refuse an image."""
    lines = []
    for evidence, verdict in rows:
        if verdict.refusals:
            lines += [f"{evidence.reference}: refused", *(f"  {refusal}" for refusal in verdict.refusals)]
    if lines:
        raise ProofError(
            "\n".join(lines), "use another image, or change what --policy asks if you know why (docs/proof.md)"
        )


def find_signers(policy: Policy, file: Path | None, key: Path | None) -> tuple[Signer, ...]:
    """Return who may sign. Raises UsageError if nobody is named."""
    found: list[Signer] = [KeySigner(read_public_key(key))] if key else []
    for signer in policy.signers:
        path = (file or Path()).parent / signer.key
        is_key = bool(signer.key)
        found.append(KeySigner(read_public_key(path)) if is_key else make_signer(signer.identity, signer.issuer))
    if not found:
        raise UsageError("dlc verify: expected who may sign, found nobody", "--key FILE, or signers in --policy FILE")
    return tuple(found)


def compute_key(origin: Origin, tree: Tree) -> str:
    """Return the content key with which this checkout builds an image, from the same base images.

    Raises DlcError if it has no such image.
    """
    variants = load_variants(tree, [origin.asked], origin.sets)
    images = {reference: Image(reference, digest) for reference, digest in origin.bases.items()}
    return plan_variants(variants, tree, [origin.asked], origin.sets, images).target(origin.id).key


def as_dict(evidence: Evidence, verdict: Verdict) -> dict[str, object]:
    """Return a value for JSON."""
    return {
        "reference": evidence.reference,
        "passes": not verdict.refusals,
        "proven": dict(verdict.proven),
        "refusals": [asdict(refusal) for refusal in verdict.refusals],
    }


def as_text(evidence: Evidence, verdict: Verdict) -> str:
    """Return the reference with the digest, then what is proven, and what is refused."""
    lines = [f"  {name:<12}{text}" for name, text in verdict.proven]
    lines += [f"  {'REFUSED':<12}{refusal.name}" for refusal in verdict.refusals]
    return "\n".join([evidence.reference, *lines])
