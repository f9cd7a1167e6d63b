"""registry.referrers: a bill of materials is attached once, and found the way that the registry offers."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from memory_registry import Memory
from scripted_server import Asked, Reply, serving

from dlc.core.errors import RegistryError
from dlc.proof.signing import KeySigner, attach_proof
from dlc.registry.client.http import Session
from dlc.registry.client.repository import INDEX, KINDS, Manifest, Repository, make_digest, make_fallback_tag
from dlc.registry.referrers import SPDX, attach_bill, attach_document, make_referrer
from harness.signed_image import make_key

IMAGE = Manifest(b'{"schemaVersion":2}', KINDS[0])
BILL = b'{"spdxVersion":"SPDX-2.3"}'
OTHER = {"mediaType": KINDS[0], "digest": make_digest(b"signature"), "size": 9, "artifactType": "application/signature"}


def never() -> bytes:
    raise AssertionError("a document was made that nobody needs")


@pytest.mark.parametrize("lists", [True, False], ids=["with the referrers API", "without"])
def test_a_document_is_attached_once_and_found_again(lists: bool) -> None:
    memory = Memory(lists=lists)
    with serving(memory) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        digest = attach_bill(repository, IMAGE, lambda: BILL)
        assert attach_bill(repository, IMAGE, never) == digest
        [found] = repository.referrers(IMAGE.digest)
    assert (found["digest"], found["artifactType"]) == (digest, SPDX)
    content = json.loads(memory.manifests[digest][1])
    assert content["subject"]["digest"] == IMAGE.digest
    assert memory.blobs[content["layers"][0]["digest"]] == BILL
    assert memory.blobs[content["config"]["digest"]] == b"{}"
    assert (make_fallback_tag(IMAGE.digest) in memory.manifests) is not lists


def test_all_pages_of_the_referrers_api_are_read() -> None:
    with serving(Memory(lists=True, page=2)) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        digests = [attach_document(repository, IMAGE, "application/note", str(n).encode()) for n in range(5)]
        assert [found["digest"] for found in repository.referrers(IMAGE.digest)] == digests


def test_what_others_attached_under_the_tag_stays() -> None:
    memory = Memory(lists=False)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [OTHER]}
    memory.manifests[make_fallback_tag(IMAGE.digest)] = (INDEX, json.dumps(index).encode())
    with serving(memory) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        digest = attach_bill(repository, IMAGE, lambda: BILL)
        assert [found["digest"] for found in repository.referrers(IMAGE.digest)] == [OTHER["digest"], digest]


def test_the_tag_is_the_one_of_the_specification_and_equal_documents_have_equal_manifests() -> None:
    assert re.fullmatch("sha256-[0-9a-f]{64}", make_fallback_tag(IMAGE.digest))
    assert make_referrer(IMAGE, SPDX, BILL) == make_referrer(IMAGE, SPDX, BILL)


class Rival(Memory):
    """A registry to which another client writes an index that it read before, after the puts of these numbers."""

    def __init__(self, *after: int) -> None:
        super().__init__(lists=False)
        self.puts = itertools.count(1)
        self.after = after

    def __call__(self, asked: Asked) -> Reply:
        reply = super().__call__(asked)
        if (
            asked.method == "PUT"
            and asked.path.endswith(make_fallback_tag(IMAGE.digest))
            and next(self.puts) in self.after
        ):
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [OTHER]}
            self.manifests[make_fallback_tag(IMAGE.digest)] = (INDEX, json.dumps(index).encode())
        return reply


def test_a_document_that_another_client_drops_from_the_list_is_listed_again() -> None:
    with serving(Rival(1, 2)) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        digest = attach_bill(repository, IMAGE, lambda: BILL)
        assert [found["digest"] for found in repository.referrers(IMAGE.digest)] == [OTHER["digest"], digest]


class Strict(Memory):
    """A registry that takes no list of what it does not have, as docker-registry."""

    def __call__(self, asked: Asked) -> Reply:
        if asked.method == "PUT" and asked.path.endswith(make_fallback_tag(IMAGE.digest)):
            listed = [found["digest"] for found in json.loads(asked.body)["manifests"]]
            if not {*listed} <= {*self.manifests}:
                return Reply(400, {}, b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}')
        return super().__call__(asked)


def test_a_document_is_attached_though_others_that_are_listed_are_gone() -> None:
    memory = Strict(lists=False)
    with serving(memory) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch", sleep=lambda _: None)
        digests = [attach_document(repository, IMAGE, "application/note", data) for data in (b"1", b"2")]
        del memory.manifests[digests[0]]
        digests.append(attach_document(repository, IMAGE, "application/note", b"3"))
        assert [found["digest"] for found in repository.referrers(IMAGE.digest)] == digests[1:]


def test_a_list_from_which_a_document_is_always_dropped_is_an_error() -> None:
    with serving(Rival(*range(1, 100))) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        with pytest.raises(RegistryError, match="found it dropped 5 times"):
            attach_bill(repository, IMAGE, lambda: BILL)


def test_all_statements_are_listed_though_another_client_drops_the_first_ones(tmp_path: Path) -> None:
    said = {kind: {"any": "word"} for kind in ("https://one.example", "https://two.example", "https://three.example")}
    with serving(Rival(3)) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        attached = attach_proof(repository, IMAGE, "team/pytorch", KeySigner(make_key(tmp_path)), said)
        assert {each.digest for each in attached.documents} <= {
            found["digest"] for found in repository.referrers(IMAGE.digest)
        }
