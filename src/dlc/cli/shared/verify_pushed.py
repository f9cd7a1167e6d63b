"""An image in a registry that is only read, and the content key that the sources of this folder give to it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.project import list_own_images
from dlc.cli.shared.arguments import say_progress
from dlc.core import environment
from dlc.core.checkout import Tree
from dlc.core.platforms import split_suffix
from dlc.plan.contexts import Image
from dlc.plan.plan import plan_variants
from dlc.proof.judge import BuildKey
from dlc.proof.provenance import Origin
from dlc.registry.client import credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository


@dataclass(frozen=True)
class PushedImage:
    """An image in a repository that is only read: `name` is its digest or its tag; `tag` may be empty."""

    repository: Repository
    registry: str
    name: str
    tag: str


def open_reference(word: str) -> PushedImage:
    """Return where an image is by its reference. Raises UsageError for another text."""
    found = credentials.parse_reference(word)
    address = found.address
    session = Session(
        address.url,
        address.path,
        credentials.read_credentials(address.registry),
        environment.find_ca_bundle(os.environ),
        actions="pull",
    )
    return PushedImage(Repository(session, address.path, say_progress), address.registry, found.name, found.tag)


def make_build_key(tree: Tree, *, is_demanded: bool) -> BuildKey:
    """Return what tells the content key that the sources of this folder give to an image.

    A checkout speaks of all images, and so does a policy that demands it. A project without a checkout around it
    speaks of its own image: others are built from recipes that it has not.
    """

    def build_key(origin: Origin) -> str | None:
        # A project makes its image for each platform of the released one.
        own = {split_suffix(identifier)[0] for identifier in list_own_images(tree)}
        is_own = is_demanded or split_suffix(origin.asked)[0] in own
        return compute_key(origin, tree) if is_own else None

    return build_key


def compute_key(origin: Origin, tree: Tree) -> str:
    """Return the content key with which this checkout builds an image, from the same base images.

    Raises DlcError if it has no such image.
    """
    variants = load_variants(tree, [origin.asked], origin.sets)
    images = {reference: Image(reference, digest) for reference, digest in origin.bases.items()}
    return plan_variants(variants, tree, [origin.asked], origin.sets, images).target(origin.id).key
