"""registry: connections stay open from one request to the next, and what that must not change."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from memory_registry import Memory
from scripted_server import Asked, Reply, serving

from dlc.core.errors import RegistryError
from dlc.registry.client import connections, http
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session, SilentError, TransientError
from dlc.registry.client.repository import KINDS, Manifest, Repository, make_digest, make_manifest
from dlc.registry.layers import AT_A_TIME, Uploads
from dlc.registry.promote import promote_image
from harness.authority import Authority

ME = Credentials("me", "hunter2")
BLOB = make_digest(b"blob")
LONG = 60.0
LOGIN = Reply(401, {"WWW-Authenticate": 'Basic realm="r"'})


def repository(url: str, ca: Path | None = None, waited: list[float] | None = None, name: str = "toy") -> Repository:
    """A client that does not wait, and says how long it would have."""
    waits = [] if waited is None else waited
    return Repository(Session(url, name, ME, ca), name, sleep=waits.append)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def missing(asked: Asked) -> Reply:
    """A registry that wants a login, and has nothing."""
    return Reply(404) if "Authorization" in asked.headers else LOGIN


def test_the_requests_of_all_sessions_use_one_connection_over_tls(authority: Authority) -> None:
    with serving(missing, authority.context("IP:127.0.0.1"), LONG) as server:
        for name in ("one", "two"):
            client = repository(server.url, authority.bundle, name=name)
            for _ in range(10):
                assert client.size(BLOB) is None
    assert len(server.asked) == 22
    assert len(server.connections) == 1


def test_a_promotion_uses_one_connection_for_each_registry_and_asks_for_no_manifest_twice(tmp_path: Path) -> None:
    source, target = Memory(lists=True), Memory(lists=True)
    source.blobs = {make_digest(data): data for data in (b"{}", b"layer")}
    config, layer = ({"mediaType": "a/b", "digest": name, "size": len(data)} for name, data in source.blobs.items())
    image = make_manifest(config, [layer])
    source.manifests = dict.fromkeys(("one-0123456789ab", image.digest), (image.kind, image.data))

    with serving(source, idle_seconds=LONG) as one, serving(target, idle_seconds=LONG) as other:
        places = [repository(each.url, name="team/pytorch") for each in (one, other)]
        tags = {image.digest: ("one-0123456789ab",)}
        promote_image(places[0], places[1], image.digest, lambda *_: tags, lambda _: None)
        assert places[1].manifest("one-0123456789ab") == image
    assert (len(one.connections), len(other.connections)) == (1, 1)
    assert [asked.path for asked in one.asked].count(f"/v2/team/pytorch/manifests/{image.digest}") == 1
    by_digest = [asked.method for asked in other.asked if asked.path.endswith(f"manifests/{image.digest}")]
    # It is asked for, sent, and read back.
    assert by_digest == ["GET", "PUT", "GET"]


def test_threads_that_send_layers_have_a_connection_each(tmp_path: Path) -> None:
    store = Memory(lists=True)
    files = {make_digest(data): data for data in (b"%d" % number * 5000 for number in range(40))}
    with serving(store, idle_seconds=LONG) as server:
        uploads = Uploads(repository(server.url, name="team/pytorch"), lambda _: None)
        for digest, data in files.items():
            (tmp_path / digest).write_bytes(data)
            uploads.add(digest, tmp_path / digest)
        uploads.finish()
    assert store.blobs == files
    assert len(server.connections) <= AT_A_TIME


def test_a_connection_that_the_server_has_closed_meanwhile_is_opened_again_without_a_word() -> None:
    waited: list[float] = []
    with serving(lambda _: Reply(201), idle_seconds=0.1) as server:
        client = repository(server.url, waited=waited)
        for _ in range(2):
            client.put_manifest("tag", Manifest(b"{}", KINDS[0]))
            time.sleep(0.5)
    assert (len(server.asked), len(server.connections), waited) == (2, 2, [])


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall may have forgotten it, and drops what is sent."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.0)
    with serving(lambda _: Reply(404), idle_seconds=LONG) as server:
        client = repository(server.url)
        assert [client.size(BLOB) for _ in range(2)] == [None, None]
    assert len(server.connections) == 2


def test_what_was_sent_on_a_connection_that_breaks_is_not_sent_twice_without_a_word() -> None:
    replies = [Reply(200), Reply(0)]
    with serving(lambda _: replies.pop(0), idle_seconds=LONG) as server:
        session = Session(server.url, "toy")
        session.send("GET", "/v2/")
        with pytest.raises(TransientError, match="closed connection"):
            session.send("PUT", "/v2/toy/manifests/tag", body=b"{}")
    assert [asked.method for asked in server.asked] == ["GET", "PUT"]


@pytest.mark.parametrize(
    ("method", "status", "asked"),
    [
        ("GET", 307, ["GET", "GET"]),
        ("HEAD", 302, ["HEAD", "HEAD"]),
        # A form with a secret in it goes nowhere else.
        ("POST", 302, ["POST", "GET"]),
        ("POST", 307, ["POST"]),
        ("PUT", 302, ["PUT"]),
        ("DELETE", 303, ["DELETE"]),
    ],
)
def test_a_redirect_takes_neither_the_login_nor_a_body_along(method: str, status: int, asked: list[str]) -> None:
    def answer(each: Asked) -> Reply:
        if "Authorization" not in each.headers and each.path != "/else%20where":
            return LOGIN
        return Reply(status, {"Location": "/else where"}) if each.path == "/v2/" else Reply(200)

    with serving(answer, idle_seconds=LONG) as server:
        session = Session(server.url, "toy", ME)
        session.send("GET", "/", accept=(200,))
        body = b"secret" if method in ("POST", "PUT") else None
        session.send(method, "/v2/", body=body, headers={"Range": "bytes=0-1"}, accept=(200, status))
    found = server.asked[2:]
    assert [each.method for each in found] == asked
    for each in found[1:]:
        assert (each.headers.get("Authorization"), each.headers.get("Content-Type"), each.body) == (None, None, b"")
        assert each.headers["Range"] == "bytes=0-1"


def test_a_redirect_from_tls_to_plain_http_is_not_followed(authority: Authority) -> None:
    with serving(lambda _: Reply(200)) as plain:
        away = Reply(302, {"Location": f"{plain.url}/blob"})
        with (
            serving(lambda _: away, authority.context("IP:127.0.0.1"), LONG) as server,
            pytest.raises(RegistryError, match="status 302"),
        ):
            repository(server.url, authority.bundle).blob(BLOB)
    assert plain.asked == []


def test_redirects_in_a_circle_end() -> None:
    with (
        serving(lambda _: Reply(302, {"Location": "/v2/"}), idle_seconds=LONG) as server,
        pytest.raises(RegistryError, match="status 302"),
    ):
        repository(server.url).blob(BLOB)
    assert len(server.asked) == 11


def test_a_proxy_gets_its_login_and_never_what_is_asked_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(lambda _: Reply(403)) as proxy, serving(lambda _: Reply(404)) as server:
        for name in ("https_proxy", "http_proxy"):
            monkeypatch.setenv(name, proxy.url.replace("//", "//me:s%40cret@"))
        assert repository(server.url).size(BLOB) is None
        assert proxy.asked == []
        with pytest.raises(RegistryError, match="the proxy refuses: 403"):
            repository("https://registry.example").size(BLOB)
    [asked] = proxy.asked
    assert (asked.method, asked.path) == ("CONNECT", "registry.example:443")
    assert asked.headers["Proxy-Authorization"] == Credentials("me", "s@cret").basic


@contextmanager
def dripping(first: bytes) -> Iterator[str]:
    """The address of a server that sends `first` to each client, and then a byte every twentieth of a second."""
    ends = threading.Event()

    def drip(client: socket.socket) -> None:
        with suppress(OSError), client:
            client.sendall(first)
            while not ends.wait(0.05):
                client.sendall(b"1")

    def accept(listener: socket.socket) -> None:
        while not ends.is_set():
            with suppress(OSError):
                threading.Thread(target=drip, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ends.set()
            thread.join()


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        # The length of a chunk, which comes byte by byte.
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 99999999\r\n\r\n",
    ],
    ids=["head", "body", "chunk", "redirect"],
)
def test_an_answer_that_comes_byte_by_byte_ends_in_time(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.5)
    start = time.monotonic()
    with dripping(first) as url, pytest.raises(SilentError, match=r"within 0\.5 s"):
        repository(url).blob(BLOB)
    # Two tries, each of a head and a body.
    assert time.monotonic() - start < 60


def test_a_piece_of_a_layer_may_take_longer_than_an_answer_while_bytes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.5)
    with dripping(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 30\r\n\r\n") as url:
        answer = Session(url, "toy", ME).send("GET", "/", headers={"Range": "bytes=0-29"}, accept=(206,))
    assert answer.body == b"1" * 30


def test_an_answer_in_chunks_is_read_to_its_end_and_the_connection_is_kept() -> None:
    body = json.dumps({"tags": ["a"]}).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    reply = Reply(200, {"Transfer-Encoding": "chunked"}, chunks)

    def answer(_: Asked) -> Reply:
        return reply

    with serving(answer, idle_seconds=LONG) as server:
        client = repository(server.url)
        assert [client.tags() for _ in range(3)] == [["a"]] * 3
    assert len(server.connections) == 1
