"""`dlc promote`: copies an image by its digest from one registry to another, with all that is attached to it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dlc.buildspec import variant
from dlc.buildspec.matrix import list_frameworks, load_variants
from dlc.buildspec.selection import find_image
from dlc.cli.shared.arguments import add_back, add_json, add_set, parse_path, print_json, print_text, say_progress
from dlc.cli.shared.verify_pushed import make_build_key
from dlc.core import environment, labels
from dlc.core.checkout import Tree, find_checkout, find_workspace, read_workspace
from dlc.core.errors import UsageError
from dlc.core.platforms import ANY_PLATFORM
from dlc.core.text import format_bytes
from dlc.image_build.buildx import read_revision
from dlc.plan.plan import plan_variants
from dlc.proof import policy as policies
from dlc.proof.policy import Policy
from dlc.proof.provenance import explain_other_tools
from dlc.proof.requirement import Anybody, find_verifiers, judge_images, list_signed_tags, require_proven
from dlc.proof.statement import NAMES
from dlc.registry import promote, read_image
from dlc.registry.client.destination import Destination, open_destination
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.promote import Promoted, RequireOrder, RequireProofs, Tags
from dlc.registry.referrers import Document
from dlc.registry.tag_age import Move, find_moves, find_newer, make_claim, require_no_newer
from dlc.registry.tags import make_tags

HELP = "copy an image by its digest to another registry, if its scan and its tests have passed"
EXAMPLE = "dlc promote pytorch-2.13-training-cpu-py311 --from registry.example/staging --to registry.example/prod"
# `pytorch:2.13.0-training-cpu-py311-bookworm-0123456789ab` or `pytorch@sha256:...`
IN_REGISTRY = re.compile(r"([a-z0-9_-]+)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127})|@(sha256:[0-9a-f]{64}))")
# What is asked of every image: its names, and results that speak for it, whoever builds it.
SAID = Policy(require=("provenance", "scan", "tests"), sources="any")
ATTACH = (
    "dlc test and dlc push --sign attach what is missing; a vulnerability may have an exception that has not expired "
    "(dlc help proof has each reason)"
)
# A content tag holds no day, so any will do.
ANY_DAY = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Asked:
    """An image in a registry: the repository's last name, and a tag or a digest."""

    framework: str
    reference: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add REF, --from, --to, --key, --policy, --back, --dry-run, --set, --json."""
    parser.add_argument(
        "image", metavar="REF",
        help="an image identifier, which means what these sources build; or FRAMEWORK:TAG or FRAMEWORK@sha256:DIGEST",
    )  # fmt: skip
    for option, what in (("--from", "where it was pushed to"), ("--to", "where it is copied to")):
        parser.add_argument(option, required=True, metavar="REGISTRY/REPO|ecr", dest=option[2:] + "_", help=what)
    parser.add_argument("--key", type=parse_path, metavar="FILE", help="public key of who has to have signed (PEM)")
    parser.add_argument(
        "--policy", type=parse_path, metavar="FILE", help="what else dlc verify would ask (dlc help proof)"
    )
    add_back(parser)
    parser.add_argument("--dry-run", action="store_true", help="check its scan, tests and tags, and copy nothing")
    add_set(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Copy one image. Raises ProofError if it has no passing scan and tests, RegistryError and others.

    Raises OlderImageError for an image whose tags mean a newer one already.
    """
    ca = environment.find_ca_bundle(os.environ)
    workspace = find_workspace()
    tree = read_workspace(workspace)
    origin = open_destination(args.from_, ca, option="--from")
    destination = open_destination(args.to_, ca, list_frameworks(tree))
    asked = parse_image(args.image, tree, args.sets)
    if origin.reference(asked.framework) == destination.reference(asked.framework):
        raise UsageError(f"--to {args.to_}: expected another place than --from, found the same", "name another path")
    source = origin.repository(asked.framework, say_progress)
    require_proofs = make_requirement(args.policy, args.key, origin.registry, tree)
    # These sources ask for an image by its identifier. In any other case the image speaks for itself.
    epoch = 0 if IN_REGISTRY.fullmatch(args.image) else read_revision(workspace.root)[1]
    require_order = make_order(destination, asked.framework, epoch, back=args.back)
    if args.dry_run:
        image = read_image.find_image(source, asked.reference)
        allowed = require_proofs(source, image, asked.reference)
        tags = promote.find_tags(source, image, allowed)
        reader = destination.reader(asked.framework, say_progress)
        promote.require_all_in_order(source, reader, image, tags, allowed, require_order)
        named = list(promote.list_tagged(source, image, tags, allowed))
        moves, gets = find_moves(source, reader, named), tuple(tag for tag, _ in named)
        found = Promoted(destination.name(asked.framework), image.digest, gets, (), 0, moves=moves)
    else:
        # In one registry no layer has to be sent.
        beside = [origin.name(asked.framework)] if origin.registry == destination.registry else []
        target = destination.repository(asked.framework, say_progress, beside)
        found = promote.promote_image(source, target, asked.reference, require_proofs, say_progress, require_order)
    if args.json:
        print_json({"registry": destination.registry, **asdict(found)})
    else:
        print_text(as_text(found, destination.registry, is_done=not args.dry_run))
    return 0


def make_requirement(file: Path | None, key: Path | None, registry: str, tree: Tree) -> RequireProofs:
    """Return what raises ProofError unless an image has a passing scan and passing tests, and all that a policy asks.

    The tags that an image gets are those which its provenance names, so a reference that it does not name is refused.
    Without a key and a policy nobody's signature counts more than another's.
    """
    policy = policies.read_policy(file) if file else SAID
    policy = policy.model_copy(update={"require": tuple(dict.fromkeys((*policy.require, *SAID.require)))})
    verifiers = find_verifiers(policy, file, key)
    if not verifiers:
        say_progress("who signed is not checked: --key FILE or --policy FILE names who may sign")

    def require_proofs(source: Repository, image: Manifest, reference: str) -> Tags:
        build_key = make_build_key(tree, is_demanded=find_checkout() is not None or policy.demands_sources)
        who = verifiers or (Anybody(),)
        tag = "" if reference == image.digest else reference
        explain = partial(explain_other_tools, tree=tree)
        judged = judge_images(source, registry, image, tag, who, policy, build_key, explain)
        require_proven(judged, ATTACH)
        return list_signed_tags(judged, source.name)

    return require_proofs


def make_order(destination: Destination, framework: str, epoch: int, *, back: bool) -> RequireOrder:
    """Return what raises OlderImageError for tags of the destination that mean an image of a newer commit.

    `epoch` is the time of the commit that asks for the image; 0 if the image's own counts.
    """

    def require_order(target: Repository, tags: Sequence[str], labels: Mapping[str, str]) -> None:
        claim = make_claim(labels, epoch, back=back)
        require_no_newer(destination.reference(framework), find_newer(target, tags, claim), claim)

    return require_order


def parse_image(word: str, tree: Tree, sets: Sequence[str]) -> Asked:
    """Return what REF means. Of an image identifier that is the content tag of what these sources build."""
    if match := IN_REGISTRY.fullmatch(word):
        return Asked(match[1], match[2] or match[3])
    variants = load_variants(tree, sets=sets, platform=ANY_PLATFORM)
    _, chosen = find_image(word, variants)
    if chosen is None:
        raise UsageError(
            f"{word}: expected an image identifier, FRAMEWORK:TAG or FRAMEWORK@sha256:DIGEST, found another text",
            "registry and path stand in --from and --to alone",
        )
    variant.require_supported([chosen])
    target = plan_variants([chosen], tree, [chosen.id], sets).target(chosen.id)
    tags = make_tags(chosen.ref, {**target.labels, labels.CREATED: ANY_DAY})
    return Asked(chosen.header.framework, tags[0])


def as_text(found: Promoted, registry: str, *, is_done: bool) -> str:
    """Return what was done, then the references in the registry, and what is attached there."""
    where = f"{registry}/{found.repository}"
    lines = [f"{where}@{found.digest}  {_describe_copy(found) if is_done else 'would be copied'}"]
    moves = {move.tag: f"  {_describe_move(move)}" for move in found.moves}
    lines += [f"  {where}:{tag}{moves.get(tag, '')}" for tag in found.tags]
    lines += [f"  attached to it: {len(found.documents)} documents"] if found.documents else []
    return "\n".join([*lines, *(f"    {_describe_document(each, found.digest)}" for each in found.documents)])


def _describe_copy(found: Promoted) -> str:
    if found.was_there:
        return "was there already"
    return f"copied, {format_bytes(found.sent)} sent" if found.sent else "copied, the registry had all of its layers"


def _describe_move(move: Move) -> str:
    """Return what a tag meant before, and whether it goes back."""
    of = f", of {move.before_created}" if move.before_created else ", without a date"
    return f"{'GOES BACK' if move.is_back else 'moves'} from {move.before}{of}"


def _describe_document(document: Document, image: str) -> str:
    about = "" if document.image == image else f"  of {document.image}"
    there = "  was there already" if document.was_there else ""
    return f"{NAMES.get(document.kind, document.kind):<10}  {document.digest}{about}{there}"
