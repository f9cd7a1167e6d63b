"""An authority without a key usage extension, as many companies' are: each client of dlc takes it, as docker does.

Python 3.13 and newer refuse it unless they are told otherwise. `dlc scan`: test_scan_authorities.py.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from scripted_server import Reply, serving

from dlc.core.errors import LockError, RegistryError
from dlc.image_build import download
from dlc.plan.contexts import Pinned
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository, make_digest
from harness.authority import Authority

FILE = b"what a build downloads"
SHA256 = hashlib.sha256(FILE).hexdigest()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, key_usage=False)


def test_a_registry_of_an_old_authority_is_trusted(authority: Authority) -> None:
    with serving(lambda _: Reply(200, {"Content-Length": "4"}), authority.context("IP:127.0.0.1")) as server:
        session = Session(server.url, "team/toy", Credentials("me", "secret"), authority.bundle)
        assert Repository(session, "team/toy").size(make_digest(b"blob")) == 4


def test_a_file_of_a_server_of_an_old_authority_is_downloaded(authority: Authority, tmp_path: Path) -> None:
    with serving(lambda _: Reply(200, body=FILE), authority.context("IP:127.0.0.1")) as server:
        folder = download.fetch(Pinned(SHA256, f"{server.url}/file"), tmp_path / "cache", authority.bundle)
    assert (folder / download.FILE).read_bytes() == FILE


def test_a_certificate_of_another_name_is_refused_all_the_same(authority: Authority, tmp_path: Path) -> None:
    with serving(lambda _: Reply(200, body=FILE), authority.context("DNS:other.example")) as server:
        session = Session(server.url, "team/toy", Credentials("me", "secret"), authority.bundle)
        with pytest.raises(RegistryError, match="mismatch"):
            Repository(session, "team/toy").size(make_digest(b"blob"))
        with pytest.raises(LockError, match="mismatch"):
            download.fetch(Pinned(SHA256, f"{server.url}/file"), tmp_path / "cache", authority.bundle)
