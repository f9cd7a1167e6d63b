"""Opens a private key that `cosign generate-key-pair` wrote: scrypt of the password, then NaCl's secretbox.

`cryptography` has scrypt and Poly1305, but not XSalsa20, which is below: a key has a hundred bytes.
https://cr.yp.to/snuffle/spec.pdf, https://cr.yp.to/snuffle/xsalsa-20110204.pdf
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from collections.abc import Sequence

# A block of PEM by either name that cosign has given it.
BLOCK = re.compile(
    rb"-----BEGIN ENCRYPTED (?:SIGSTORE|COSIGN) PRIVATE KEY-----\s*(.*?)\s*-----END ENCRYPTED", re.DOTALL
)
KDF, CIPHER = "scrypt", "nacl/secretbox"
# scrypt of cosign's own parameters takes 64 MiB; a file may not ask for more than four times that.
MOST_MEMORY = 256 << 20
CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
# The four words that one step of a round changes, down the columns, then along the rows.
STEPS = (
    (0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
    (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14),
)  # fmt: skip
WORD = 0xFFFFFFFF
ROUNDS = 20
TAG_BYTES = 16


def decrypt_key(pem: bytes, password: bytes) -> bytes:
    """Return the key in PKCS #8, DER. Raises ValueError for another form, and for a wrong password."""
    found = BLOCK.search(pem)
    if found is None:
        raise ValueError("no key of cosign")
    try:
        content = json.loads(base64.b64decode(found[1]))
        kdf, cipher = content["kdf"], content["cipher"]
        if (kdf["name"], cipher["name"]) != (KDF, CIPHER):
            raise ValueError(f"a key by {kdf['name']} and {cipher['name']}")
        cost = kdf["params"]
        key = hashlib.scrypt(
            password, salt=base64.b64decode(kdf["salt"]), n=cost["N"], r=cost["r"], p=cost["p"],
            maxmem=MOST_MEMORY, dklen=32,
        )  # fmt: skip
        return open_secretbox(key, base64.b64decode(cipher["nonce"]), base64.b64decode(content["ciphertext"]))
    except (KeyError, TypeError, struct.error, OverflowError):
        raise ValueError("JSON that is no key of cosign") from None


def open_secretbox(key: bytes, nonce: bytes, box: bytes) -> bytes:
    """Return the message in a box. Raises ValueError if the key is not its key, or the box was changed."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    tag, encrypted = box[:TAG_BYTES], box[TAG_BYTES:]
    stream = make_stream(key, nonce, 32 + len(encrypted))
    try:
        Poly1305.verify_tag(stream[:32], encrypted, tag)
    except InvalidSignature:
        raise ValueError("a wrong password, or a changed file") from None
    return bytes(one ^ other for one, other in zip(encrypted, stream[32:], strict=True))


def make_stream(key: bytes, nonce: bytes, length: int) -> bytes:
    """Return so many bytes of XSalsa20's stream."""
    inner = _mix(_lay_out(struct.unpack("<8I", key), struct.unpack("<4I", nonce[:16])))
    # HSalsa20 takes the words of the constants and of the nonce, without adding what went in.
    derived = [inner[place] for place in (0, 5, 10, 15, 6, 7, 8, 9)]
    rest = struct.unpack("<2I", nonce[16:])
    stream = b""
    for number in range(-(-length // 64)):
        words = _lay_out(derived, (*rest, number & WORD, number >> 32))
        mixed = (one + other & WORD for one, other in zip(words, _mix(words), strict=True))
        stream += struct.pack("<16I", *mixed)
    return stream[:length]


def _lay_out(key: Sequence[int], middle: Sequence[int]) -> list[int]:
    """Return the sixteen words that are mixed: constants on the diagonal, the key around four words of the caller."""
    one, two, three, four = CONSTANTS
    return [one, *key[:4], two, *middle, three, *key[4:], four]


def _mix(words: Sequence[int]) -> list[int]:
    found = list(words)
    for _ in range(ROUNDS // 2):
        for step in STEPS:
            for target, first, second, turn in _turns(step):
                total = found[first] + found[second] & WORD
                found[target] ^= (total << turn | total >> (32 - turn)) & WORD
    return found


def _turns(step: tuple[int, int, int, int]) -> tuple[tuple[int, int, int, int], ...]:
    """Return which word is changed by the sum of which two, and how far the sum is turned."""
    a, b, c, d = step
    return (b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)
