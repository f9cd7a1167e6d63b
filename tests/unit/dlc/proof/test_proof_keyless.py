"""proof.keyless: which identity a bundle is by, and what is said if there is none. No service of sigstore is asked.

Here its Verifier trusts whatever certificate it sees; the identities are compared by sigstore's own policy. Chains,
transparency logs and signatures are sigstore's work.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import sigstore.models
import sigstore.oidc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from sigstore.errors import VerificationError

from dlc.core.errors import DlcError, RegistryError, UsageError
from dlc.proof import keyless
from dlc.proof.dsse import BUNDLE, IN_TOTO, Bundle
from dlc.proof.judge import judge
from dlc.proof.opening import Evidence
from dlc.proof.policy import Policy, Signer
from dlc.proof.requirement import find_verifiers
from dlc.proof.signing import open_signer
from dlc.proof.statement import PROVENANCE, make_statement

WORKFLOW = "https://git.example/team/dlc/.github/workflows/images.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
# Of a token's issuer in a certificate: https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
ISSUER_ID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
PAYLOAD = make_statement("team", f"sha256:{'5' * 64}", PROVENANCE, {})


def make_certificate() -> x509.Certificate:
    """A certificate as sigstore gives one to a job of GitHub Actions."""
    key = ec.generate_private_key(ec.SECP256R1())
    start = datetime.now(UTC) - timedelta(minutes=1)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(minutes=10))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(WORKFLOW)]), critical=True)
        .add_extension(x509.UnrecognizedExtension(ISSUER_ID, ISSUER.encode()), critical=False)
        .sign(key, hashes.SHA256())
    )


@dataclass
class Believing:
    """A verifier that says what a bundle holds, once the policy takes its certificate."""

    certificate: x509.Certificate
    payload: bytes = PAYLOAD
    fault: str = ""

    def verify_dsse(self, _bundle: object, policy: Any) -> tuple[str, bytes]:
        if self.fault:
            raise VerificationError(self.fault)
        policy.verify(self.certificate)
        return IN_TOTO, self.payload


Believe = Callable[..., None]


@pytest.fixture
def believe(monkeypatch: pytest.MonkeyPatch) -> Believe:
    """Let the next verification see these words, or find this fault."""

    def prepare(payload: bytes = PAYLOAD, fault: str = "") -> None:
        found = Believing(make_certificate(), payload, fault)
        monkeypatch.setattr(keyless, "_load_verifier", lambda: found)
        monkeypatch.setattr(sigstore.models.Bundle, "from_json", lambda _data: None)

    prepare()
    return prepare


def bundle(*, has_certificate: bool = True) -> Bundle:
    return Bundle(PAYLOAD, IN_TOTO, b"signature", "", has_certificate, b"{}")


@pytest.mark.usefixtures("believe")
@pytest.mark.parametrize(
    ("identity", "issuer", "accepted"),
    [
        (WORKFLOW, ISSUER, True),
        (WORKFLOW, "https://other.example", False),
        ("https://git.example/team/dlc/.github/workflows/images.yml@refs/heads/mine", ISSUER, False),
        ("someone@example.com", ISSUER, False),
    ],
)
def test_a_bundle_is_by_its_identity_and_its_issuer_alone(identity: str, issuer: str, accepted: bool) -> None:
    signer = keyless.make_verifier(identity, issuer)
    assert signer.accepts(bundle()) is accepted
    # It verifies, for somebody: so it is another's, and not broken.
    assert not signer.is_named_in(bundle())
    assert not signer.accepts_payload(b"signature", b"payload")


@pytest.mark.parametrize("case", ["a signature that does not verify", "other words than ours"])
def test_a_bundle_that_does_not_verify_is_nobodys(believe: Believe, case: str) -> None:
    if case == "other words than ours":
        believe(payload=PAYLOAD.replace(b"team", b"them"))
    else:
        believe(fault="the signature is wrong")
    signer = keyless.make_verifier(WORKFLOW, ISSUER)
    assert not signer.accepts(bundle())
    assert signer.is_named_in(bundle())


def test_a_bundle_without_a_certificate_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyless, "_load_verifier", lambda: pytest.fail("sigstore was asked"))
    signer = keyless.make_verifier(WORKFLOW, ISSUER)
    assert not signer.accepts(bundle(has_certificate=False))
    assert not signer.is_named_in(bundle(has_certificate=False))


def judged(identity: str) -> list[str]:
    """The names of the refusals of an image with a keyless provenance."""
    payload = base64.b64encode(PAYLOAD).decode()
    data = json.dumps({
        "mediaType": BUNDLE,
        "verificationMaterial": {"certificate": {"rawBytes": ""}, "tlogEntries": []},
        "dsseEnvelope": {"payload": payload, "payloadType": IN_TOTO, "signatures": [{"sig": ""}]},
    })  # fmt: skip
    now = datetime.now(UTC)
    evidence = Evidence("team", f"sha256:{'5' * 64}", now.isoformat(), {}, bundles=(data.encode(),))
    policy = Policy(signers=(Signer(identity=identity, issuer=ISSUER),), require=("provenance",), sources="any")
    return [each.name for each in judge(evidence, find_verifiers(policy, None, None), policy, str, now).refusals]


def test_a_policy_names_the_identity_that_may_sign(believe: Believe) -> None:
    assert judged("someone@example.com") == ["provenance-of-another-key"]
    believe(fault="the signature is wrong")
    assert judged(WORKFLOW) == ["provenance-invalid"]


def no_identity(_client: str = "") -> None:
    return None


def no_answer(_client: str = "") -> None:
    raise OSError("no route to host")


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        (no_identity, UsageError, "expected the identity of a CI job, found none"),
        (no_answer, RegistryError, "expected its services to answer, found: no route to host"),
    ],
)
def test_without_an_identity_or_its_services_nothing_is_signed(
    monkeypatch: pytest.MonkeyPatch, found: Any, error: type[DlcError], said: str
) -> None:
    monkeypatch.setattr(sigstore.oidc, "detect_credential", found)
    with pytest.raises(error, match=said):
        open_signer(keyless.WORD, {})


class Unable:
    """A signer whose service fails."""

    def sign_dsse(self, _statement: object) -> None:
        raise OSError("no route to host")


def test_a_service_that_fails_while_signing_is_one_error() -> None:
    signer = keyless.KeylessSigner(Unable())  # type: ignore[arg-type]
    with pytest.raises(RegistryError, match="expected its services to answer, found: no route to host"):
        signer.sign_statement(PAYLOAD)
    assert signer.sign_payload(b"payload") is None  # type: ignore[func-returns-value]


def test_who_signed_a_bundle_is_read_from_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has signed an image must have signed those of other platforms too, before an index over them is signed."""
    parsed = SimpleNamespace(signing_certificate=make_certificate())
    monkeypatch.setattr(sigstore.models.Bundle, "from_json", lambda _data: parsed)
    signer = keyless.KeylessSigner(Unable())  # type: ignore[arg-type]
    assert signer.make_verifier(b"{}") == keyless.IdentityVerifier(WORKFLOW, ISSUER)


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    for ask in (lambda: open_signer(keyless.WORD, {}), lambda: keyless.make_verifier(WORKFLOW, ISSUER)):
        with pytest.raises(UsageError, match="expected the Python package sigstore, found none") as caught:
            ask()
        assert "pip install sigstore" in caught.value.remedy
