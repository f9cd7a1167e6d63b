"""Opens what is attached to an image: which signatures verify, and which statements are about this image. Pure.

What does not open is kept with the reason, by what it claims to be: it counts only if nothing else of its kind opens.
Whoever may push to a repository may attach things to an image, so one that is wrong must not hide one that is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dlc.proof.dsse import Bundle, parse_bundle
from dlc.proof.keys import PublicKey
from dlc.proof.statement import NAMES, SIGNATURE, Statement, parse_statement
from dlc.registry.simple_signing import SignedPayload, parse_payload

# The first of these that holds for something is told.
REASONS = ("of-another-image", "of-another-key", "invalid", "unreadable")
# What cannot be read may be of any kind.
ANY_KIND = ""


@dataclass(frozen=True)
class Evidence:
    """An image as a registry serves it, and what is attached to it. Only digests were checked."""

    # With the registry, and with the digest.
    reference: str
    digest: str
    created: str
    labels: Mapping[str, str]
    # The digest of its configuration, which is the name of the image in an engine's own store.
    config: str = ""
    signatures: tuple[SignedPayload, ...] = ()
    bundles: tuple[bytes, ...] = ()
    # SPDX documents that lie beside the image unsigned, where scanners look.
    bills: tuple[bytes, ...] = ()
    # What is attached and cannot be read: by which digest, and why.
    unread: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Refusal:
    """One reason not to trust an image. `name` is for programs and for tests."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Verifier(Protocol):
    """Tells whose signatures count: those of one key, or of one identity."""

    @property
    def name(self) -> str:
        """Return the signer's name for reports."""

    def is_named_in(self, bundle: Bundle) -> bool:
        """Tell whether a bundle says that it is by this signer, as far as this can be told."""

    def accepts(self, bundle: Bundle) -> bool:
        """Tell whether the bundle's signature is by this signer."""

    def accepts_payload(self, signature: bytes, payload: bytes) -> bool:
        """Tell whether a plain signature is by this signer."""


@dataclass(frozen=True)
class KeyVerifier:
    """Whoever has the private key of this public key."""

    key: PublicKey

    @property
    def name(self) -> str:
        """Return the key's file."""
        return f"key {self.key.name}"

    def is_named_in(self, bundle: Bundle) -> bool:
        """Tell whether the bundle names the key, or no signer at all."""
        return not bundle.has_certificate and bundle.hint in ("", self.key.hint)

    def accepts(self, bundle: Bundle) -> bool:
        """Tell whether the key verifies the bundle."""
        return self.key.verifies(bundle.signature, bundle.signed)

    def accepts_payload(self, signature: bytes, payload: bytes) -> bool:
        """Tell whether the key verifies a plain signature."""
        return self.key.verifies(signature, payload)


@dataclass(frozen=True)
class Signed:
    """A statement about this image that a signer vouches for."""

    statement: Statement
    signer: str


class Opened:
    """What opened, and why the rest did not."""

    def __init__(self) -> None:
        self._found: dict[str, list[Signed]] = {}
        self._refused: dict[str, list[Refusal]] = {}

    def add(self, kind: str, signed: Signed) -> None:
        """Keep a statement that opened."""
        self._found.setdefault(kind, []).append(signed)

    def refuse(self, kind: str, reason: str, text: str) -> None:
        """Keep the reason, of REASONS, why something of this kind did not open."""
        self._refused.setdefault(kind, []).append(Refusal(reason, text))

    def find(self, kind: str) -> Sequence[Signed]:
        """Return the statements of a kind."""
        return self._found.get(kind, ())

    def explain(self, kind: str) -> Refusal:
        """Return why there is no statement of a kind."""
        name = NAMES[kind]
        reasons = [*self._refused.get(kind, ()), *self._refused.get(ANY_KIND, ())]
        if not reasons:
            what = name if kind == SIGNATURE else f"signed {name}"
            return Refusal(f"{name}-missing", f"expected a {what} of this image, found none")
        first = min(reasons, key=lambda refusal: REASONS.index(refusal.name))
        return Refusal(f"{name}-{first.name}", first.text)


def open_evidence(evidence: Evidence, verifiers: Sequence[Verifier]) -> Opened:
    """Verify every signature, and compare what each statement is about with the image."""
    opened = Opened()
    for data in evidence.bundles:
        _open_bundle(data, evidence, verifiers, opened)
    for found in evidence.signatures:
        _open_payload(found, evidence, verifiers, opened)
    for digest, why in evidence.unread:
        opened.refuse(ANY_KIND, "unreadable", f"expected a bundle with a signed statement, found {digest}: {why}")
    return opened


def _open_bundle(data: bytes, evidence: Evidence, verifiers: Sequence[Verifier], opened: Opened) -> None:
    try:
        bundle = parse_bundle(data)
        statement = parse_statement(bundle.payload)
    except ValueError as error:
        opened.refuse(ANY_KIND, "unreadable", f"expected a bundle with a signed statement, found {error}")
        return
    verifier = next((each for each in verifiers if each.accepts(bundle)), None)
    if verifier is None:
        _refuse_signature(bundle, statement.kind, verifiers, opened)
    elif evidence.digest not in statement.digests:
        _refuse_subject(statement.kind, evidence, statement.digests, opened)
    else:
        opened.add(statement.kind, Signed(statement, verifier.name))


def _refuse_signature(bundle: Bundle, kind: str, verifiers: Sequence[Verifier], opened: Opened) -> None:
    """Tell a signature that is wrong from one by somebody else."""
    names = ", ".join(each.name for each in verifiers)
    if any(each.is_named_in(bundle) for each in verifiers):
        opened.refuse(kind, "invalid", f"expected a signature by {names}, found one that does not verify")
    else:
        signer = f"the key {bundle.hint[:12]}" if bundle.hint else "another identity"
        opened.refuse(kind, "of-another-key", f"expected a signature by {names}, found one by {signer}")


def _refuse_subject(kind: str, evidence: Evidence, digests: Iterable[str], opened: Opened) -> None:
    found = ", ".join(digests) or "no image"
    opened.refuse(kind, "of-another-image", f"expected a statement about {evidence.digest}, found one about {found}")


def _open_payload(found: SignedPayload, evidence: Evidence, verifiers: Sequence[Verifier], opened: Opened) -> None:
    try:
        digest = parse_payload(found.payload)
    except ValueError as error:
        opened.refuse(SIGNATURE, "unreadable", f"expected the payload of a signature, found {error}")
        return
    verifier = next((each for each in verifiers if each.accepts_payload(found.signature, found.payload)), None)
    if verifier is None:
        names = ", ".join(each.name for each in verifiers)
        opened.refuse(SIGNATURE, "invalid", f"expected a signature by {names}, found one that does not verify")
    elif digest != evidence.digest:
        _refuse_subject(SIGNATURE, evidence, [digest], opened)
    else:
        empty: Mapping[str, Any] = {}
        opened.add(SIGNATURE, Signed(Statement(SIGNATURE, (digest,), empty), verifier.name))
