"""proof: what is written is what the specifications say, as their own examples and their packages judge it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2  # type: ignore[import-untyped]
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1 import statement_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor  # type: ignore[import-untyped]
from in_toto_attestation.v1.statement import Statement as JudgedStatement  # type: ignore[import-untyped]
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from sigstore_models.bundle.v1 import Bundle as JudgedBundle

from dlc.plan.plan import make_plan
from dlc.proof.dsse import encode_signed, parse_bundle, sign_statement
from dlc.proof.keys import PrivateKey
from dlc.proof.provenance import NO_ADDRESS, Sources, hide_place, list_materials
from dlc.proof.statement import BILL, PROVENANCE, SCAN, TESTS, make_statement, parse_statement
from dlc.registry.simple_signing import SignedPayload, describe_signed, make_payload, parse_payload, read_signature
from harness.signed_image import COMMIT, SignedImage, make_key
from harness.specimen import TORCH_ID, specimen

DIGEST = f"sha256:{'5' * 64}"
SAID = SignedImage().list_statements()


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return make_key(tmp_path)


def test_the_example_of_dsse_gives_its_bytes_and_its_signature() -> None:
    """https://github.com/secure-systems-lab/dsse/blob/master/protocol.md, "Test Vectors"."""
    signed = encode_signed("http://example.com/HelloWorld", b"hello world")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    number = 97358161215184420915383655311931858321456579547487070936769975997791359926199
    example = PrivateKey("example", ec.derive_private_key(number, ec.SECP256R1()))
    signature = b"".join(part.to_bytes(32, "big") for part in decode_dss_signature(example.sign(signed)))
    expected = "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
    assert base64.b64encode(signature).decode() == expected


@pytest.mark.parametrize("kind", [PROVENANCE, BILL, SCAN, TESTS])
def test_a_bundle_is_one_for_sigstore_and_its_envelope_verifies_for_securesystemslib(
    key: PrivateKey, kind: str
) -> None:
    payload = make_statement("registry.example/team/pytorch", DIGEST, kind, SAID[kind])
    data = sign_statement(payload, key)
    JudgedBundle.from_json(data)
    content = json.loads(data)["dsseEnvelope"]
    content["signatures"][0]["keyid"] = "any"
    envelope = Envelope.from_dict(content)
    envelope.verify([SSlibKey.from_crypto(key.key.public_key(), keyid="any")], 1)
    assert envelope.payload == payload
    assert parse_bundle(data).payload == payload


@pytest.mark.parametrize("kind", [PROVENANCE, BILL, SCAN, TESTS])
def test_a_statement_is_valid_by_in_toto(kind: str) -> None:
    payload = make_statement("registry.example/team/pytorch", DIGEST, kind, SAID[kind])
    parsed = ParseDict(json.loads(payload), statement_pb2.Statement())
    JudgedStatement.copy_from_pb(parsed).validate()
    assert parse_statement(payload).digests == (DIGEST,)


def test_the_provenance_is_valid_by_slsa_and_names_every_material_with_its_digest() -> None:
    parsed = ParseDict(SAID[PROVENANCE], provenance_pb2.Provenance())
    materials = parsed.build_definition.resolved_dependencies
    for material in materials:
        ResourceDescriptor.copy_from_pb(material).validate()
    assert {"gitCommit": COMMIT} in [dict(material.digest) for material in materials]
    assert all(material.digest for material in materials)
    names = {material.name for material in materials}
    assert "docker/pytorch/locks/pytorch-2.13-training-cpu-py311/framework.txt" in names
    assert {"docker/pytorch/Dockerfile", "docker/base/Dockerfile", "docker/debian/bookworm/versions.txt"} <= names
    assert not any("tensorflow" in name for name in names)


def test_the_results_of_tests_are_valid_by_in_toto() -> None:
    parsed = ParseDict(SAID[TESTS], test_result_pb2.TestResult())
    assert parsed.result == "PASSED"
    for configuration in parsed.configuration:
        ResourceDescriptor.copy_from_pb(configuration).validate()


def test_the_scan_has_what_the_form_of_in_toto_requires() -> None:
    """https://github.com/in-toto/attestation/blob/main/spec/predicates/vulns_02.md."""
    scanner, metadata = SAID[SCAN]["scanner"], SAID[SCAN]["metadata"]
    assert {"uri", "db", "result"} <= set(scanner)
    assert "lastUpdate" in scanner["db"]
    assert set(metadata) == {"scanStartedOn", "scanFinishedOn"}


# The example of https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md, with its digests written out.
EXAMPLE = {
    "critical": {
        "identity": {"docker-reference": "testing/manifest"},
        "image": {"Docker-manifest-digest": DIGEST},
        "type": "cosign container image signature",
    },
    "optional": {"creator": "atomic", "timestamp": 1458239713},
}  # fmt: skip


def test_cosigns_example_of_a_payload_is_read_and_ours_has_its_form() -> None:
    assert parse_payload(json.dumps(EXAMPLE).encode()) == DIGEST
    own: dict[str, Any] = json.loads(make_payload("registry.example/team/pytorch", DIGEST))
    assert own["critical"]["type"] == EXAMPLE["critical"]["type"]  # type: ignore[index]
    # cosign itself writes it in small letters.
    assert own["critical"]["image"] == {"docker-manifest-digest": DIGEST}


def test_a_signature_lies_in_the_annotation_that_cosign_reads(key: PrivateKey) -> None:
    payload = make_payload("registry.example/team/pytorch", DIGEST)
    layer = describe_signed(SignedPayload(payload, key.sign(payload)))
    assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
    assert list(layer["annotations"]) == ["dev.cosignproject.cosign/signature"]
    found = read_signature(layer)
    assert found is not None
    assert key.public.verifies(found, payload)
    assert not key.public.verifies(found, payload + b" ")


def test_equal_words_are_signed_alike(key: PrivateKey) -> None:
    payload = make_statement("team", DIGEST, PROVENANCE, SAID[PROVENANCE])
    assert sign_statement(payload, key) == sign_statement(payload, key)


def list_addresses(address: str) -> set[str]:
    """The addresses of the sources, without the names of files behind them."""
    sources = Sources(make_plan(specimen(), [TORCH_ID]), specimen(), TORCH_ID, (), address)
    uris = [str(each["uri"]) for each in list_materials(sources, COMMIT)]
    return {uri.partition("#")[0] for uri in uris if uri.startswith(("git+", NO_ADDRESS))}


@pytest.mark.parametrize(
    "place",
    [
        "/home/ada/dlc",
        "file:///home/ada/dlc",
        "../dlc",
        "./dlc:1",
        "dlc",
        "~/dlc",
        "C:\\Users",
        "http:///home/ada",
        "",
    ],
)
def test_no_path_of_a_host_is_in_a_provenance(place: str) -> None:
    assert list_addresses(place) == {NO_ADDRESS}


@pytest.mark.parametrize(
    "address", ["https://git.example/a/b", "ssh://git.example/a", "git.example:a/b.git", "git@git.example:/srv/b.git"]
)
def test_an_address_that_others_can_reach_stays_in_a_provenance(address: str) -> None:
    assert list_addresses(address) == {f"git+{address}"}


def test_a_download_that_was_a_file_of_a_host_is_named_without_its_folder() -> None:
    assert hide_place("file:///home/ada/efa-1.2.tar.gz") == "urn:dlc:file:efa-1.2.tar.gz"
    assert hide_place("https://ada:secret@mirror.example/efa.tar.gz") == "https://mirror.example/efa.tar.gz"
