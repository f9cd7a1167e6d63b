"""Envelopes of signed statements (DSSE), and sigstore's bundles, which hold one each. Pure.

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md says which bytes are signed.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from dlc.proof.keys import PrivateKey

IN_TOTO = "application/vnd.in-toto+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
# Media types of older bundles begin so too.
BUNDLES = "application/vnd.dev.sigstore.bundle"


@dataclass(frozen=True)
class Bundle:
    """A signed statement as it lies in a registry. `data` is the whole file, for callers that read other fields."""

    payload: bytes
    kind: str
    signature: bytes
    # What names the key, empty if nothing does.
    hint: str
    # A certificate names the signer: it is a keyless signature.
    has_certificate: bool
    data: bytes

    @property
    def signed(self) -> bytes:
        """Return the bytes that the signature is of."""
        return encode_signed(self.kind, self.payload)


def encode_signed(kind: str, payload: bytes) -> bytes:
    """Return the bytes that are signed, for a payload of this media type: DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def sign_statement(payload: bytes, key: PrivateKey) -> bytes:
    """Return the bundle of a statement as JSON, signed by a key."""
    signature = key.sign(encode_signed(IN_TOTO, payload))
    content = {
        "mediaType": BUNDLE,
        # No entry of a transparency log: whoever has the public key needs none.
        "verificationMaterial": {"publicKey": {"hint": key.public.hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": IN_TOTO,
            "signatures": [{"sig": base64.b64encode(signature).decode()}],
        },
    }
    return json.dumps(content, separators=(",", ":")).encode()


def parse_bundle(data: bytes) -> Bundle:
    """Parse a bundle; nothing of it is verified. Raises ValueError for what is none."""
    try:
        content = json.loads(data)
        if not str(content["mediaType"]).startswith(BUNDLES):
            raise ValueError(f"media type {content['mediaType']}")
        envelope = content["dsseEnvelope"]
        [signature] = envelope["signatures"]
        if envelope["payloadType"] != IN_TOTO:
            raise ValueError(f"a payload of type {envelope['payloadType']}")
        material = content["verificationMaterial"]
        return Bundle(
            payload=_decode(envelope["payload"]),
            kind=envelope["payloadType"],
            signature=_decode(signature["sig"]),
            hint=str(material["publicKey"].get("hint", "")) if "publicKey" in material else "",
            has_certificate="certificate" in material or "x509CertificateChain" in material,
            data=data,
        )
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("JSON that is no bundle with one signature") from None


def _decode(text: Any) -> bytes:
    # binascii.Error is a ValueError.
    return base64.b64decode(text, validate=True)
