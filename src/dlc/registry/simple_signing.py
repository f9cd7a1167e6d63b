"""cosign's signature of an image: a small payload, signed by a key, in a manifest under a tag. Pure.

https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlc.registry.client.repository import CONFIG, Manifest, describe_blob, make_fallback_tag, make_manifest

PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
TYPE = "cosign container image signature"
NEVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class SignedPayload:
    """A payload and its signature as they lie in a registry."""

    payload: bytes
    signature: bytes


def make_signature_tag(digest: str) -> str:
    """Return the tag under which cosign looks for the signatures of an image."""
    return f"{make_fallback_tag(digest)}.sig"


def make_payload(reference: str, digest: str) -> bytes:
    """Return what is signed about an image. `reference` is for readers: cosign does not compare it."""
    critical = {
        "identity": {"docker-reference": reference},
        "image": {"docker-manifest-digest": digest},
        "type": TYPE,
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def parse_payload(payload: bytes) -> str:
    """Return the digest of the image that a payload is about. Raises ValueError for what is none of cosign's."""
    try:
        critical = json.loads(payload)["critical"]
        if critical["type"] != TYPE:
            raise ValueError(f"a payload of type {critical['type']}")
        image = {name.lower(): value for name, value in critical["image"].items()}
        return str(image["docker-manifest-digest"])
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("JSON that is no payload of a signature") from None


def describe_signed(found: SignedPayload) -> Mapping[str, Any]:
    """Return the layer of the manifest that holds a signed payload."""
    signature = base64.b64encode(found.signature).decode()
    return {**describe_blob(PAYLOAD, found.payload), "annotations": {ANNOTATION: signature}}


def make_signature_manifest(layers: Sequence[Mapping[str, Any]]) -> tuple[Manifest, bytes]:
    """Return the manifest of an image's signatures and its configuration, as cosign writes them."""
    content = {
        "architecture": "",
        "created": NEVER,
        "history": [{"created": NEVER} for _ in layers],
        "os": "",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        "config": {},
    }
    config = json.dumps(content, separators=(",", ":")).encode()
    return make_manifest(describe_blob(CONFIG, config), layers), config


def read_signature(layer: Mapping[str, Any]) -> bytes | None:
    """Return the signature in the annotation of a layer; None if the layer is no signed payload.

    Raises ValueError for an annotation that is no base64.
    """
    annotations = layer.get("annotations")
    if layer.get("mediaType") != PAYLOAD or not isinstance(annotations, dict):
        return None
    found = annotations.get(ANNOTATION)
    return base64.b64decode(found, validate=True) if isinstance(found, str) else None


def join_signatures(there: Manifest, added: Sequence[Mapping[str, Any]]) -> tuple[Manifest, bytes] | None:
    """Return the manifest `there` with the signatures of `added` at its end, and its configuration.

    Return None if `there` has all these signatures already.
    """
    old = list(there.content["layers"])
    new = [layer for layer in added if layer not in old]
    return make_signature_manifest([*old, *new]) if new else None
