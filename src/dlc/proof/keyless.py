"""Signatures without a key: by an identity that a CI job has, through sigstore's public services.

Needs the package `sigstore`, the extra `keyless`: it is imported where it is used.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from dlc.core import tls
from dlc.core.errors import RegistryError, UsageError
from dlc.proof.dsse import Bundle

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from sigstore.sign import Signer
    from sigstore.verify import Verifier

# What --sign takes in place of a file; a file of this name is ./keyless.
WORD = "keyless"
# What a certificate says of the issuer of the token: https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
ISSUER = "1.3.6.1.4.1.57264.1.1"


def require_package() -> None:
    """Raise UsageError if the package is not there."""
    if importlib.util.find_spec("sigstore") is None:
        raise UsageError(
            "a signature without a key: expected the Python package sigstore, found none",
            ".venv/bin/python -m pip install sigstore, or sign by a key",
        )


@dataclass(frozen=True)
class KeylessSigner:
    """Signs as the identity of this CI job: sigstore certifies a key of some minutes and keeps a public record."""

    signer: Signer

    def sign_statement(self, payload: bytes) -> bytes:
        """Return the bundle of a statement, with certificate and record. Raises RegistryError if sigstore fails."""
        from sigstore.dsse import Statement
        from sigstore.errors import Error

        try:
            return self.signer.sign_dsse(Statement(payload)).to_json().encode()
        except (Error, OSError) as error:
            raise _refuse_service(error) from None

    def sign_payload(self, payload: bytes) -> None:
        """Return no plain signature: there is no key that could verify it later."""

    def make_verifier(self, bundle: bytes) -> IdentityVerifier:
        """Return the identity in the certificate of a bundle that this signer made."""
        from sigstore.models import Bundle as Parsed

        return read_identity(Parsed.from_json(bundle).signing_certificate)


def open_signer() -> KeylessSigner:
    """Return what signs as this job's identity. Raises UsageError if there is none, RegistryError if sigstore fails."""
    require_package()
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken, detect_credential
    from sigstore.sign import Signer, SigningContext

    tls.relax_urllib3()
    try:
        found = detect_credential()
        if found is None:
            raise UsageError(
                f"--sign {WORD}: expected the identity of a CI job, found none",
                "a job of GitHub Actions needs the permission `id-token: write`; elsewhere sign by a key",
            )
        return KeylessSigner(
            Signer(IdentityToken(found), SigningContext.from_trust_config(ClientTrustConfig.production()))
        )
    except (Error, OSError) as error:
        raise _refuse_service(error) from None


@dataclass(frozen=True)
class IdentityVerifier:
    """Whoever an issuer of tokens vouches for under this name."""

    identity: str
    issuer: str

    @property
    def name(self) -> str:
        """Return the identity."""
        return f"identity {self.identity}"

    def is_named_in(self, bundle: Bundle) -> bool:
        """Tell whether the bundle has a certificate, and verifies for no identity at all."""
        return bundle.has_certificate and not _verifies(bundle, _AnyIdentity())

    def accepts(self, bundle: Bundle) -> bool:
        """Tell whether the bundle verifies, and its certificate is of this identity."""
        from sigstore.verify.policy import Identity

        return bundle.has_certificate and _verifies(bundle, Identity(identity=self.identity, issuer=self.issuer))

    def accepts_payload(self, signature: bytes, payload: bytes) -> bool:
        """Tell that no plain signature is by an identity."""
        return False


class _AnyIdentity:
    """A policy of sigstore that takes every certificate; its own one would print a warning."""

    def verify(self, cert: Certificate) -> None:
        """Raise nothing."""


def make_verifier(identity: str, issuer: str) -> IdentityVerifier:
    """Return the signer of this name. Raises UsageError if the package is not there."""
    require_package()
    return IdentityVerifier(identity, issuer)


def read_identity(certificate: Certificate) -> IdentityVerifier:
    """Return the identity and the issuer that a certificate of sigstore names."""
    from cryptography.x509 import (
        ObjectIdentifier,
        RFC822Name,
        SubjectAlternativeName,
        UniformResourceIdentifier,
        UnrecognizedExtension,
    )

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    found = [*names.get_values_for_type(UniformResourceIdentifier), *names.get_values_for_type(RFC822Name)]
    issuer = certificate.extensions.get_extension_for_oid(ObjectIdentifier(ISSUER)).value
    said = issuer.value.decode() if isinstance(issuer, UnrecognizedExtension) else ""
    return IdentityVerifier(found[0] if found else "", said)


def _verifies(bundle: Bundle, policy: Any) -> bool:
    from sigstore.errors import VerificationError
    from sigstore.models import Bundle as Parsed
    from sigstore.models import InvalidBundle

    try:
        _, payload = _load_verifier().verify_dsse(Parsed.from_json(bundle.data), policy)
    except (VerificationError, InvalidBundle, ValueError):
        return False
    # Parsed once more by another parser: both must have read the same.
    return bytes(payload) == bundle.payload


@cache
def _load_verifier() -> Verifier:
    from sigstore.errors import Error
    from sigstore.verify import Verifier

    tls.relax_urllib3()
    try:
        return Verifier.production()
    except (Error, OSError) as error:
        raise _refuse_service(error) from None


def _refuse_service(error: Exception) -> RegistryError:
    return RegistryError(
        f"sigstore: expected its services to answer, found: {error}", "check the network, or sign by a key"
    )
