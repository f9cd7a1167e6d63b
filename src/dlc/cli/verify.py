"""`dlc verify`: checks who signed an image in a registry, and what the signed statements say of it."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

from dlc.buildspec.matrix import load_variants
from dlc.cli.arguments import add_json, parse_path, print_json, print_text, say_progress
from dlc.core import environment
from dlc.core.checkout import Tree, read_workspace
from dlc.core.labels import ID
from dlc.images.proof import policy as policies
from dlc.images.proof.judge import Verdict
from dlc.images.proof.opening import Evidence
from dlc.images.proof.policy import Policy
from dlc.images.proof.provenance import Origin, explain_other_tools
from dlc.images.proof.requirement import find_verifiers, judge_images, require_proven, require_verifiers
from dlc.images.push.registry import credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import Repository
from dlc.plan.contexts import Image
from dlc.plan.plan import plan_variants

HELP = "check who signed an image in a registry, and what is proven of it"
EXAMPLE = "dlc verify registry.example:5000/team/pytorch:2.13.0-training-cpu-py311-bookworm --key cosign.pub"
# A name of the report -> its colour.
STATES = {"REFUSED": "bad"}
REMEDY = "use another image, or change what --policy asks if you know why (dlc help proof)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the reference, --key, --policy, --json."""
    parser.add_argument(
        "reference", metavar="REGISTRY/REPO:TAG", help="an image in a registry, or REGISTRY/REPO@DIGEST"
    )
    parser.add_argument(
        "--key", type=parse_path, metavar="FILE", help="public key of who may sign (PEM, as cosign.pub)"
    )
    parser.add_argument(
        "--policy", type=parse_path, metavar="FILE", help="who may sign, what is asked (dlc help proof)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is proven. Raises ProofError with every reason to refuse the image."""
    policy = policies.read_policy(args.policy) if args.policy else Policy()
    verifiers = find_verifiers(policy, args.policy, args.key)
    require_verifiers(verifiers, "dlc verify")
    tree = read_workspace()
    repository, registry, reference = open_reference(args.reference)
    rows = judge_images(
        repository, registry, reference, verifiers, policy, partial(compute_key, tree=tree),
        partial(explain_other_tools, tree=tree),
    )  # fmt: skip
    if args.json:
        print_json([as_dict(*row) for row in rows])
    else:
        print_text("\n".join(as_text(*row) for row in rows), STATES)
    require_proven(rows, REMEDY)
    return 0


def open_reference(word: str) -> tuple[Repository, str, str]:
    """Return the repository of an image's reference, which is only read, its registry, and the tag or digest.

    Raises UsageError for another text.
    """
    address, reference = credentials.parse_reference(word)
    session = Session(
        address.url,
        address.path,
        credentials.read_credentials(address.registry),
        environment.find_ca_bundle(os.environ),
        actions="pull",
    )
    return Repository(session, address.path, say_progress), address.registry, reference


def compute_key(origin: Origin, tree: Tree) -> str:
    """Return the content key with which this checkout builds an image, from the same base images.

    Raises DlcError if it has no such image.
    """
    variants = load_variants(tree, [origin.asked], origin.sets)
    images = {reference: Image(reference, digest) for reference, digest in origin.bases.items()}
    return plan_variants(variants, tree, [origin.asked], origin.sets, images).target(origin.id).key


def as_dict(evidence: Evidence, verdict: Verdict) -> dict[str, object]:
    """Return a value for JSON; `dlc site` reads it as a record too."""
    return {
        "reference": evidence.reference,
        "id": evidence.labels.get(ID, ""),
        "digest": evidence.digest,
        "config": evidence.config,
        "day": datetime.now(UTC).date().isoformat(),
        "passes": not verdict.refusals,
        "proven": dict(verdict.proven),
        "refusals": [asdict(refusal) for refusal in verdict.refusals],
    }


def as_text(evidence: Evidence, verdict: Verdict) -> str:
    """Return the reference with the digest, then what is proven, and what is refused."""
    lines = [f"  {name:<12}{text}" for name, text in verdict.proven]
    lines += [f"  {'REFUSED':<12}{refusal.name}" for refusal in verdict.refusals]
    return "\n".join([evidence.reference, *lines])
