"""proof: keys, policies and bundles that are none are told in one message each."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.poly1305 import Poly1305
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from dlc.core.errors import SpecError, UsageError
from dlc.proof.cosign_keys import make_stream
from dlc.proof.dsse import BUNDLE, IN_TOTO, parse_bundle
from dlc.proof.keys import read_private_key, read_public_key
from dlc.proof.policy import Policy, read_policy
from dlc.proof.provenance import find_builder, read_origin
from dlc.proof.results import parse_time, read_scan, read_tests
from dlc.proof.statement import TYPE, parse_statement
from dlc.registry.client.credentials import parse_reference
from dlc.registry.simple_signing import parse_payload
from harness.signed_image import make_key

PKCS8 = PrivateFormat.PKCS8


def test_a_key_that_openssl_wrote_signs_and_verifies(tmp_path: Path) -> None:
    made = make_key(tmp_path)
    private, public = read_private_key(tmp_path / "cosign.key", {}), read_public_key(tmp_path / "cosign.pub")
    assert private.public.hint == public.hint == made.public.hint
    assert public.verifies(private.sign(b"data"), b"data")
    assert not public.verifies(b"", b"data")


def test_an_encrypted_key_takes_the_password_of_cosigns_variable(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "cosign.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PKCS8, BestAvailableEncryption(b"secret")))
    assert read_private_key(path, {"COSIGN_PASSWORD": "secret"}).sign(b"data")
    for environment, said in (({}, "an encrypted key and no password"), ({"COSIGN_PASSWORD": "x"}, "is wrong")):
        with pytest.raises(UsageError, match=said):
            read_private_key(path, environment)


A_DIGEST = f"sha256:{'a' * 64}"
NACL_KEY = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
NACL_NONCE = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")


def test_the_example_of_nacl_gives_its_stream() -> None:
    """https://cr.yp.to/highspeed/naclcrypto-20090310.pdf, "Testing: the xsalsa20 stream"."""
    start = "eea6a7251c1e72916d11c2cb214d3c252539121d8e234e652d651fa4c8cff880"
    assert make_stream(NACL_KEY, NACL_NONCE, 32).hex() == start


def write_cosign_key(path: Path, key: ec.EllipticCurvePrivateKey, password: bytes) -> None:
    """What `cosign generate-key-pair` writes, at a lower cost of scrypt."""
    der = key.private_bytes(Encoding.DER, PKCS8, NoEncryption())
    salt, nonce, cost = b"s" * 32, b"n" * 24, {"N": 1024, "r": 8, "p": 1}
    secret = hashlib.scrypt(password, salt=salt, n=1024, r=8, p=1, dklen=32)
    stream = make_stream(secret, nonce, 32 + len(der))
    encrypted = bytes(one ^ other for one, other in zip(der, stream[32:], strict=True))
    box = Poly1305.generate_tag(stream[:32], encrypted) + encrypted
    salted, once, boxed = (base64.b64encode(each).decode() for each in (salt, nonce, box))
    content = {"kdf": {"name": "scrypt", "params": cost, "salt": salted},
               "cipher": {"name": "nacl/secretbox", "nonce": once}, "ciphertext": boxed}  # fmt: skip
    text = base64.encodebytes(json.dumps(content).encode()).decode()
    name = "ENCRYPTED SIGSTORE PRIVATE KEY"
    path.write_text(f"-----BEGIN {name}-----\n{text}-----END {name}-----\n")


def test_a_key_that_cosign_encrypted_signs_too(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "cosign.key"
    write_cosign_key(path, key, b"secret")
    found = read_private_key(path, {"COSIGN_PASSWORD": "secret"})
    assert found.key.private_numbers() == key.private_numbers()
    for environment in ({}, {"COSIGN_PASSWORD": "wrong"}):
        with pytest.raises(UsageError, match="COSIGN_PASSWORD is wrong"):
            read_private_key(path, environment)


def write_keys(folder: Path) -> None:
    """Keys that are not for us, one of each kind."""
    other = ec.generate_private_key(ec.SECP384R1())
    large = rsa.generate_private_key(65537, 2048)
    for name, key in (("p384", other), ("rsa", large)):
        (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PKCS8, NoEncryption()))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / f"{name}.pub").write_bytes(public)
    broken = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nabc\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"
    (folder / "cosign.key").write_text(broken)
    (folder / "text.key").write_text("no key")
    (folder / "text.pub").write_text("no key")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("p384.key", "expected an ECDSA key on the curve P-256, found secp384r1"),
        ("rsa.key", "expected an ECDSA key on the curve P-256, found RSA"),
        ("cosign.key", "expected a private key in PEM"),
        ("text.key", "expected a private key in PEM"),
        ("none.key", "expected a key, found: No such file"),
        ("p384.pub", "expected an ECDSA key on the curve P-256, found secp384r1"),
        ("rsa.pub", "expected an ECDSA key on the curve P-256, found RSA"),
        ("text.pub", "expected a public key in PEM"),
    ],
)
def test_a_file_that_is_no_such_key_is_told(tmp_path: Path, name: str, said: str) -> None:
    write_keys(tmp_path)
    path = tmp_path / name
    with pytest.raises(UsageError, match=said) as caught:
        read_public_key(path) if path.suffix == ".pub" else read_private_key(path, {})
    assert "openssl" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signer: []", "unknown key 'signer'"),
        ("signers: [{key: a.pub, identity: b}]", "key, or identity and issuer"),
        ("signers: [{identity: b}]", "key, or identity and issuer"),
        ("require: [signatures]", "did you mean 'signature'"),
        ("scan_days: soon", "policy.yml:1:12"),
        ("scan_days: -1", "greater than or equal to 0"),
        ("require: [", "expected YAML"),
    ],
)
def test_a_wrong_policy_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_policy(path)
    assert said in caught.value.message
    assert "policy.yml:1:" in caught.value.message


def test_an_empty_policy_is_what_is_asked_without_one(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text("")
    assert read_policy(path) == Policy()
    with pytest.raises(SpecError, match="expected a policy in YAML, found"):
        read_policy(tmp_path / "none.yml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["_type", "subject", "digest", "mediaType", "dsseEnvelope", "signatures", "critical", "image",
                         "payload", "predicate", "verificationMaterial", "payloadType", "type", "scanner", "result"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def accepts_or_refuses(read: Any, given: Any) -> None:
    """Whatever a stranger attaches, it is read or it is a ValueError."""
    with suppress(ValueError):
        read(given)


@given(JSON)
def test_whatever_is_attached_is_read_or_refused(content: Any) -> None:
    bundle = {"mediaType": BUNDLE, "verificationMaterial": {}, "dsseEnvelope": content}
    envelope = {**bundle, "dsseEnvelope": {"payloadType": IN_TOTO, "payload": content, "signatures": [content]}}
    for data in (content, bundle, envelope, {"_type": TYPE, "subject": content, "predicate": content}):
        text = json.dumps(data).encode()
        for parse in (parse_bundle, parse_statement, parse_payload):
            accepts_or_refuses(parse, text)
    if isinstance(content, dict):
        for read in (read_origin, read_scan, read_tests):
            accepts_or_refuses(read, content)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\xff", b"[" * 100_000, b"null"])
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    for parse in (parse_bundle, parse_statement, parse_payload):
        with pytest.raises(ValueError, match=r"."):
            parse(data)


def test_a_time_without_a_zone_is_none() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        parse_time("2026-11-28T12:00:00")


@pytest.mark.parametrize(
    ("text", "address", "tag", "digest"),
    [
        ("registry.example:5000/team/pytorch:2.13", "registry.example:5000", "2.13", ""),
        (f"localhost/pytorch@{A_DIGEST}", "localhost", "", A_DIGEST),
        (f"registry.example/team/pytorch:2.13@{A_DIGEST}", "registry.example", "2.13", A_DIGEST),
    ],
)
def test_a_reference_is_a_registry_a_repository_a_tag_and_a_digest(
    text: str, address: str, tag: str, digest: str
) -> None:
    found = parse_reference(text)
    assert (found.address.registry, found.tag, found.digest) == (address, tag, digest)
    assert found.name == (digest or tag)
    assert found.address.path in ("team/pytorch", "pytorch")


@pytest.mark.parametrize(
    "text", ["pytorch:2.13", "registry.example/pytorch", "registry.example/Team:1", "registry.example/a:1@sha256:12",
             f"registry.example/a:-1@{A_DIGEST}", "registry.example:99999/a:1", "registry.example/a:-1", ":", "@", ""],
)  # fmt: skip
def test_what_is_no_reference_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="expected REGISTRY/REPO:TAG or REGISTRY/REPO@sha256:DIGEST"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("environment", "builder", "run"),
    [
        ({}, "urn:dlc:builder:local", ""),
        (
            {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "team/dlc",
             "GITHUB_WORKFLOW_REF": "team/dlc/.github/workflows/build.yml@refs/heads/main", "GITHUB_RUN_ID": "7"},
            "https://git.example/team/dlc/.github/workflows/build.yml@refs/heads/main",
            "https://git.example/team/dlc/actions/runs/7",
        ),
        (
            {"GITLAB_CI": "true", "CI_PROJECT_URL": "https://git.example/dlc", "CI_JOB_URL": "https://git.example/7"},
            "https://git.example/dlc", "https://git.example/7",
        ),
        (
            {"CODEBUILD_BUILD_ARN": "arn:aws:codebuild:us-east-1:1:build/dlc:7"},
            "arn:aws:codebuild:us-east-1:1:project/dlc", "arn:aws:codebuild:us-east-1:1:build/dlc:7",
        ),
    ],
)  # fmt: skip
def test_the_builder_is_the_ci_job_as_its_variables_say(environment: dict[str, str], builder: str, run: str) -> None:
    assert (find_builder(environment).id, find_builder(environment).run) == (builder, run)
