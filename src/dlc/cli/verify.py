"""`dlc verify`: checks who signed an image in a registry, and what the signed statements say of it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

from dlc.cli.shared.arguments import add_json, parse_path, print_json, print_text
from dlc.cli.shared.verify_pushed import make_build_key, open_reference
from dlc.core.checkout import find_checkout, read_workspace
from dlc.core.labels import ID
from dlc.proof import policy as policies
from dlc.proof.evidence import find_manifest
from dlc.proof.judge import Verdict
from dlc.proof.opening import Evidence
from dlc.proof.policy import Policy
from dlc.proof.provenance import explain_other_tools
from dlc.proof.requirement import find_verifiers, judge_images, require_proven, require_verifiers

HELP = "check who signed an image in a registry, and what is proven of it"
EXAMPLE = "dlc verify registry.example:5000/team/pytorch:2.13.0-training-cpu-py311-bookworm --key cosign.pub"
# A name of the report -> its colour.
STATES = {"REFUSED": "bad"}
REMEDY = (
    "use another image, or change what --policy asks if you know why; REGISTRY/REPO@DIGEST compares no name "
    "(dlc help proof)"
)


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
    is_checkout = find_checkout() is not None
    policy = policy if is_checkout else policy.fill_outside_checkout()
    tree = read_workspace()
    build_key = make_build_key(tree, is_demanded=is_checkout or policy.demands_sources)
    place = open_reference(args.reference)
    image = find_manifest(place.repository, place.registry, place.name)
    rows = judge_images(
        place.repository, place.registry, image, place.tag, verifiers, policy, build_key,
        partial(explain_other_tools, tree=tree),
    )  # fmt: skip
    if args.json:
        print_json([as_dict(*row) for row in rows])
    else:
        print_text("\n".join(as_text(*row) for row in rows), STATES)
    require_proven(rows, REMEDY)
    return 0


def as_dict(evidence: Evidence, verdict: Verdict) -> dict[str, object]:
    """Return a value for JSON; `dlc site` reads it as a record too."""
    subject = verdict.subject
    return {
        "reference": evidence.reference,
        "id": subject.id if subject else evidence.labels.get(ID, ""),
        # What a signed provenance says; null if none does.
        "image": asdict(subject) if subject else None,
        "digest": evidence.digest,
        "config": evidence.config,
        "day": datetime.now(UTC).date().isoformat(),
        "passes": not verdict.refusals,
        "proven": dict(verdict.proven),
        "not_compared": dict(verdict.unchecked),
        "refusals": [asdict(refusal) for refusal in verdict.refusals],
    }


def as_text(evidence: Evidence, verdict: Verdict) -> str:
    """Return the reference with the digest, which image it is, what is proven, not compared, and refused."""
    image = str(verdict.subject) if verdict.subject else "not known: no signed provenance was taken"
    lines = [f"  {name:<12}{text}" for name, text in (("image", image), *verdict.proven)]
    lines += [f"  not compared: {what}; {why}" for what, why in verdict.unchecked]
    lines += [f"  {'REFUSED':<12}{refusal.name}" for refusal in verdict.refusals]
    return "\n".join([evidence.reference, *lines])
