"""Keys of signatures: ECDSA on the curve P-256 with SHA-256, in PEM, as cosign has them.

`cryptography` takes a tenth of a second to import, and `dlc --help` imports every verb: functions import it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlc.core.errors import UsageError
from dlc.proof import cosign_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

# As cosign reads it.
PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 (the name of a variable)
MAKE_KEY = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out cosign.key"
MAKE_PUBLIC = "openssl pkey -in cosign.key -pubout -out cosign.pub"


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies. `name` is its file, as messages name the signer."""

    name: str
    key: ec.EllipticCurvePublicKey

    @property
    def hint(self) -> str:
        """Return what sigstore's bundles name a key by: the digest of its DER form, in base64."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(der).digest()).decode()

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Tell whether the signature of these bytes is by this key."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            self.key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs."""

    name: str
    key: ec.EllipticCurvePrivateKey

    @property
    def public(self) -> PublicKey:
        """Return the key that verifies its signatures."""
        return PublicKey(self.name, self.key.public_key())

    def sign(self, data: bytes) -> bytes:
        """Return the signature in DER: the same for equal bytes (RFC 6979) if OpenSSL can."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            return self.key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        except UnsupportedAlgorithm:
            return self.key.sign(data, ec.ECDSA(hashes.SHA256()))


def read_private_key(path: Path, environment: Mapping[str, str]) -> PrivateKey:
    """Read the key that signs, in PKCS #8 or as cosign writes it; COSIGN_PASSWORD has its password.

    Raises UsageError for every file that is no such key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

    data = _read_file(path, MAKE_KEY)
    password = environment.get(PASSWORD, "").encode() or None
    try:
        if cosign_keys.BLOCK.search(data):
            found = load_der_private_key(cosign_keys.decrypt_key(data, password or b""), None)
        else:
            found = load_pem_private_key(data, password)
    except TypeError:
        # The password is missing, or the key needs none.
        state = "an encrypted key and no password" if password is None else "a password and a key that needs none"
        raise UsageError(f"{path}: found {state}", f"set or unset {PASSWORD}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"{path}: expected a private key in PEM, found another file, or {PASSWORD} is wrong", MAKE_KEY
        ) from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
        raise _other_kind(path, found, MAKE_KEY)
    return PrivateKey(str(path), found)


def read_public_key(path: Path) -> PublicKey:
    """Read a key that verifies, such as cosign.pub. Raises UsageError for every file that is no such key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read_file(path, MAKE_PUBLIC)
    try:
        found = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: expected a public key in PEM, found another file", MAKE_PUBLIC) from None
    if not isinstance(found, ec.EllipticCurvePublicKey) or not isinstance(found.curve, ec.SECP256R1):
        raise _other_kind(path, found, MAKE_PUBLIC)
    return PublicKey(str(path), found)


def _read_file(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: expected a key, found: {error.strerror}", remedy) from None


def _other_kind(path: Path, found: object, remedy: str) -> UsageError:
    curve = getattr(found, "curve", None)
    kind = curve.name if curve else type(found).__name__.replace("PrivateKey", "").replace("PublicKey", "").strip("_")
    return UsageError(f"{path}: expected an ECDSA key on the curve P-256, found {kind}", remedy)
