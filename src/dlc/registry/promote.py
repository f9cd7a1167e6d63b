"""Copies an image by its digest from one registry to another: layers, manifest, what is attached, and its tags last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlc.core.atomic_files import report_disk_errors, scratch_folder
from dlc.core.errors import ImageError
from dlc.core.text import format_bytes
from dlc.registry.client.http import UnreadableError
from dlc.registry.client.repository import INDEXES, DamagedError, Manifest, Repository, make_fallback_tag
from dlc.registry.read_image import PUSH, find_image, read_labels
from dlc.registry.referrers import LAYERS, Document, is_about, list_referrer, put_blob, read_kind
from dlc.registry.simple_signing import join_signatures, make_signature_manifest
from dlc.registry.tag_age import Move, find_moves
from dlc.registry.tags import move_tag
from dlc.registry.verify import MismatchError

Say = Callable[[str], None]
# The digest of an image, or of an index -> the tags that it may get.
Tags = Mapping[str, Sequence[str]]
# Raises an error unless what a reference means has what has to be known of it, and may be under this reference. Returns
# the tags of all images that were looked at.
RequireProofs = Callable[[Repository, Manifest, str], Tags]
# Raises an error if the image, whose labels it gets, may not have one of these tags in a repository.
RequireOrder = Callable[[Repository, Sequence[str], Mapping[str, str]], None]
# Tags of signatures and of attestations: layers with annotations, which are joined if both registries have some.
OF_COSIGN = (".sig", ".att")
SIGNED = "cosign's tag"


@dataclass(frozen=True)
class Promoted:
    """An image in the registry that it was promoted to. `sent` bytes were not there."""

    repository: str
    digest: str
    tags: tuple[str, ...]
    # Digests of the documents about it that were copied too.
    attached: tuple[str, ...]
    sent: int
    documents: tuple[Document, ...] = ()
    # The registry had the image already.
    was_there: bool = False
    moves: tuple[Move, ...] = ()


def find_tags(source: Repository, image: Manifest, allowed: Tags) -> tuple[str, ...]:
    """Return the tags that an image gets: those that a push gave it, as its provenance says.

    Raises ImageError if it was pushed to another repository, or its content tag means another image by now.
    """
    tags = tuple(allowed.get(image.digest, ()))
    where = f"{source.name}@{image.digest}"
    if not tags:
        raise ImageError(
            f"{where}: expected a provenance that names a tag of this repository, found none",
            "name the framework that the image is of",
        )
    if image.kind in INDEXES:
        # The images in it have content tags of their own, the index has none.
        return tags
    content = source.any_manifest(tags[0])
    if content is None or content.digest != image.digest:
        what = content.digest if content else "no image"
        raise ImageError(
            f"{where}: expected it under its content tag {tags[0]}, found {what}",
            f"name the tag under which it was pushed; if it has none: {PUSH}",
        )
    return tags


def _find_member_tags(source: Repository, image: Manifest, allowed: Tags) -> Iterator[tuple[str, Manifest]]:
    """Yield the tags, besides those of the index, that its images have in the source, each with its image.

    An image that nobody looked at gets no tag.
    """
    taken = set(allowed.get(image.digest, ()))
    for one in _list_platforms(source, image):
        for tag in allowed.get(one.digest, ()):
            there = source.any_manifest(tag)
            if tag not in taken and there and there.digest == one.digest:
                yield tag, one


def promote_image(
    source: Repository, target: Repository, reference: str, require_proofs: RequireProofs, say: Say,
    require_order: RequireOrder = lambda *_: None,
) -> Promoted:  # fmt: skip
    """Copy an image to another repository. The tags move when all else is there and was read back.

    `require_proofs` and `require_order` are asked before anything is copied, the latter again before a tag moves.
    Raises as they do, ImageError, RegistryError and DiskError.
    """
    image = find_image(source, reference)
    allowed = require_proofs(source, image, reference)
    tags = find_tags(source, image, allowed)
    require_all_in_order(source, target, image, tags, allowed, require_order)
    target.require_writable()
    was_there, sent = _copy_manifest(source, target, image, say)
    documents: list[Document] = []
    for one in (image, *_list_platforms(source, image)):
        sent += _copy_referrers(source, target, one, documents, say)
        sent += _copy_signatures(source, target, one, documents, say)
    # Another promotion may have moved them meanwhile.
    require_all_in_order(source, target, image, tags, allowed, require_order)
    named = list(list_tagged(source, image, tags, allowed))
    moves = find_moves(source, target, named)
    for tag, one in named:
        move_tag(target, tag, one)
    attached = tuple(each.digest for each in documents)
    gets = tuple(tag for tag, _ in named)
    return Promoted(target.name, image.digest, gets, attached, sent, tuple(documents), was_there, moves)


def list_tagged(
    source: Repository, image: Manifest, tags: Sequence[str], allowed: Tags
) -> Iterator[tuple[str, Manifest]]:
    """Yield each tag that a promotion sets, with what it will mean: those of the images in an index first."""
    yield from _find_member_tags(source, image, allowed)
    yield from ((tag, image) for tag in tags)


def require_all_in_order(
    source: Repository, target: Repository, image: Manifest, tags: Sequence[str], allowed: Tags,
    require_order: RequireOrder,
) -> None:  # fmt: skip
    """Ask `require_order` of the tags of an image, and of those that the images of an index have besides."""
    require_order(target, tags, read_labels(source, image))
    for tag, one in _find_member_tags(source, image, allowed):
        require_order(target, [tag], read_labels(source, one))


def _list_platforms(source: Repository, image: Manifest) -> Iterator[Manifest]:
    """List the images in an index; what is attached to an image of several platforms is attached to each of them."""
    for child in image.content.get("manifests", ()):
        yield find_image(source, str(child["digest"]))


def _copy_referrers(
    source: Repository, target: Repository, image: Manifest, documents: list[Document], say: Say
) -> int:
    """Copy the documents that refer to an image, and list them there; return the bytes that were sent."""
    sent = 0
    for descriptor in source.referrers(image.digest):
        digest = str(descriptor["digest"])
        try:
            document = _find_document(source, digest, image)
            was_there, size = _copy_manifest(source, target, document, say)
        except (DamagedError, UnreadableError) as error:
            # Whoever may push lists what he wants: it must not hold the image up.
            say(f"{digest} is listed as attached {error.message}: left out")
            continue
        sent += size
        list_referrer(target, image, descriptor)
        documents.append(Document(document.digest, read_kind(document), image.digest, was_there))
    return sent


def _find_document(source: Repository, digest: str, image: Manifest) -> Manifest:
    """Return what is listed as a document about an image. Raises DamagedError if it is none, or cannot be had."""
    found = source.any_manifest(digest)
    if found is None or found.digest != digest:
        raise DamagedError("and is not there")
    if found.kind in INDEXES or not is_about(found, image.digest):
        raise DamagedError("and is not about the image")
    for blob in _list_blobs(found.content):
        if (size := source.size(blob["digest"])) != blob["size"]:
            raise DamagedError(f"with {blob['digest']} of {blob['size']} bytes, which has {size or 0}")
    return found


def _copy_signatures(
    source: Repository, target: Repository, image: Manifest, documents: list[Document], say: Say
) -> int:
    """Copy what cosign keeps under tags, beside what the target has there; return the bytes that were sent."""
    sent = 0
    for suffix in OF_COSIGN:
        tag = f"{make_fallback_tag(image.digest)}{suffix}"
        found = source.manifest(tag)
        if found is None or not (layers := _list_readable(source, found)):
            continue
        if layers == found.content["layers"]:
            was_there, size = _copy_manifest(source, target, found, say)
            sent += size
        else:
            say(f"{tag}: signatures that are not there are left out")
            was_there = target.any_manifest(found.digest) is not None
            sent += sum(_copy_blob(source, target, layer["digest"], layer["size"], say) for layer in layers)
            found, config = make_signature_manifest(layers)
            put_blob(target, config)
        there = target.manifest(tag)
        if there is None:
            move_tag(target, tag, found)
        elif joined := join_signatures(there, found.content["layers"]):
            manifest, config = joined
            put_blob(target, config)
            move_tag(target, tag, manifest)
        documents.append(Document(found.digest, SIGNED, image.digest, was_there))
    return sent


def _list_readable(source: Repository, found: Manifest) -> list[Mapping[str, Any]]:
    """List the layers under cosign's tag that are there; those of an image are not looked at."""
    layers = [layer for layer in found.content["layers"] if not layer["mediaType"].startswith(LAYERS)]
    return [layer for layer in layers if source.size(layer["digest"]) == layer["size"]]


def _copy_manifest(source: Repository, target: Repository, image: Manifest, say: Say) -> tuple[bool, int]:
    """Copy a manifest under its digest, and before it all that it names.

    Returns whether it was there, and the bytes that were sent.
    """
    there = target.any_manifest(image.digest)
    if there is not None and there.data == image.data and image.kind not in INDEXES:
        return True, 0
    sent = 0
    for child in image.content.get("manifests", ()):
        one = find_image(source, str(child["digest"]))
        if one.kind in INDEXES:
            raise ImageError(f"{source.name}@{image.digest}: expected images in it, found the index {one.digest}", PUSH)
        sent += _copy_manifest(source, target, one, say)[1]
    blobs = {str(blob["digest"]): int(blob["size"]) for blob in _list_blobs(image.content)}
    for digest, size in blobs.items():
        sent += _copy_blob(source, target, digest, size, say)
    target.put_manifest(image.digest, image)
    served = target.any_manifest(image.digest)
    if served is None or served.data != image.data:
        found = served.digest if served else "no manifest"
        raise MismatchError(f"{target.name}@{image.digest}", image.digest, found)
    for digest, size in blobs.items():
        if (found_size := target.size(digest)) != size:
            raise MismatchError(f"{target.name}: blob {digest}", f"{size} bytes", f"{found_size or 0} bytes")
    return there is not None, sent


def _list_blobs(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "config" in content:
        yield content["config"]
    yield from content.get("layers", ())


def _copy_blob(source: Repository, target: Repository, digest: str, size: int, say: Say) -> int:
    """Copy a blob that the target lacks; return the bytes that were sent."""
    if target.size(digest) == size or target.mount(digest):
        return 0
    with scratch_folder("dlc-promote-") as folder, report_disk_errors(folder, " in TMPDIR"):
        path = folder / "blob"
        source.download(digest, size, path)
        target.upload(path, digest)
    say(f"{format_bytes(size)}  {digest}")
    return size
