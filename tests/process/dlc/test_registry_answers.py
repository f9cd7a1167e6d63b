"""registry: TLS with a private authority, and answers that no registry gives: each one clear error, at once."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, serving

from dlc.core.errors import RegistryError
from dlc.registry.client import http
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import ANSWER_BYTES, Session, SilentError, UnknownBlobError, _connection_error
from dlc.registry.client.repository import KINDS, Manifest, Repository, make_digest
from harness.authority import Authority

ME = Credentials("me", "hunter2")
BLOB = make_digest(b"blob")
HTML = {"Content-Type": "text/html"}
MANIFEST = {"Content-Type": KINDS[0]}
NOT_JSON = [b"<html>log in</html>", b"[]", b"null", b"\xff\xfe", b"", b'{"a":', b'"text"', b"[" * 100_000]


def repository(url: str, ca: Path | None = None, waited: list[float] | None = None) -> Repository:
    """A client that does not wait."""
    waits = [] if waited is None else waited
    return Repository(Session(url, "team/toy", ME, ca), "team/toy", sleep=waits.append)


def with_token(token: Reply) -> Callable[[Asked], Reply]:
    """A registry that names a token service, which gives this answer."""

    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/token"):
            return token
        return Reply(401, {"WWW-Authenticate": f'Bearer realm="http://{asked.headers["Host"]}/token"'})

    return answer


def refused(answer: Callable[[Asked], Reply], ask: Callable[[Repository], object]) -> str:
    """What a RegistryError says that came at once: nothing was tried again, and the secret is not in it."""
    waited: list[float] = []
    with serving(answer) as server, pytest.raises(RegistryError) as caught:
        ask(repository(server.url, waited=waited))
    assert waited == []
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_registry_of_a_private_authority_is_trusted_once_its_bundle_is_named(authority: Authority) -> None:
    with serving(lambda _: Reply(200, {"Content-Length": "4"}), authority.context("IP:127.0.0.1")) as server:
        assert repository(server.url, authority.bundle).size(BLOB) == 4


@pytest.mark.parametrize(
    ("names", "trusted", "words"),
    [
        ("IP:127.0.0.1", False, "name the CA bundle in DLC_CA_BUNDLE"),
        ("DNS:other.example", True, "name that the registry"),
    ],
)
def test_certificate_that_does_not_hold_is_told_at_once_with_what_to_do(
    authority: Authority, names: str, trusted: bool, words: str
) -> None:
    waited: list[float] = []
    with serving(lambda _: Reply(404), authority.context(names)) as server, pytest.raises(RegistryError) as caught:
        repository(server.url, authority.bundle if trusted else None, waited).size(BLOB)
    assert words in caught.value.remedy
    assert waited == []


@pytest.mark.parametrize("code", [9, 10], ids=["not yet valid", "expired"])
def test_a_certificate_of_another_time_may_be_this_machines_clock(code: int) -> None:
    refused = ssl.SSLCertVerificationError("no")
    refused.verify_code, refused.verify_message = code, "certificate is not valid now"
    error = _connection_error("GET https://registry.example/v2/", refused, 30.0, "")
    assert f"clock is wrong: it says {datetime.now(UTC):%F}" in error.remedy


def test_the_head_of_an_answer_that_comes_byte_by_byte_is_not_waited_for_longer_than_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A byte of a header comes every twentieth of a second, without end."""
    monkeypatch.setattr(http, "ANSWER_SECONDS", 2.0)
    ends = threading.Event()

    def trickle(listener: socket.socket) -> None:
        while not ends.is_set():
            with suppress(OSError), listener.accept()[0] as client:
                client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not ends.wait(0.05):
                    client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        try:
            with pytest.raises(SilentError, match="no answer within 2 s"):
                repository(f"http://127.0.0.1:{listener.getsockname()[1]}").size(BLOB)
        finally:
            ends.set()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "no host has the name of the proxy"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_a_proxy_that_is_not_there_is_named_without_its_password(
    fault: OSError, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("https_proxy", "http://me:s3cret@proxy.example:3128")
    with pytest.raises(RegistryError, match=r"http://proxy\.example:3128") as caught:
        repository("https://registry.example").size(BLOB)
    assert said in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert "HTTPS_PROXY" in caught.value.remedy


def test_registry_without_tls_at_an_address_with_https_is_told_at_once() -> None:
    waited: list[float] = []
    with serving(lambda _: Reply(404)) as server, pytest.raises(RegistryError, match="no TLS") as caught:
        repository(server.url.replace("http:", "https:"), waited=waited).size(BLOB)
    assert "TLS" in caught.value.remedy
    assert waited == []


@pytest.mark.parametrize("content", ["no certificate\n", None])
def test_bundle_that_cannot_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "bundle.pem"
    if content:
        bundle.write_text(content)
    with pytest.raises(RegistryError, match=r"bundle\.pem: expected certificates in PEM"):
        repository("https://registry.example", bundle)


@pytest.mark.parametrize("body", [*NOT_JSON, b"{}", b'{"token": 1}', b'{"token": ""}', b'{"token": "a\\r\\nb"}'])
def test_token_service_that_gives_no_token_is_one_error(body: bytes) -> None:
    assert "/token: expected a token" in refused(with_token(Reply(200, HTML, body)), lambda to: to.size(BLOB))


@pytest.mark.parametrize("identity", [False, True])
def test_a_token_for_taking_a_layer_from_another_repository_is_good_for_both(identity: bool) -> None:
    user = Credentials("me", "hunter2", identity)
    with serving(with_token(Reply(200, {}, b'{"token": "good"}'))) as server:
        other = Session(server.url, "team/toy", user, also_read="team/pytorch")
        client = Repository(Session(server.url, "team/toy", user), "team/toy", beside=[("team/pytorch", other)])
        assert not client.mount(BLOB)  # this registry wants a token after every token
    [asked] = [asked for asked in server.asked if asked.path.startswith("/token")]
    sent = asked.body.decode() or asked.path.partition("?")[2]
    scopes = urllib.parse.parse_qs(sent)["scope"]
    assert " ".join(scopes) == "repository:team/toy:pull,push repository:team/pytorch:pull"


def test_token_service_that_sends_megabytes_is_not_read_to_the_end() -> None:
    text = refused(with_token(Reply(200, HTML, b" " * (ANSWER_BYTES + 1))), lambda to: to.size(BLOB))
    assert "expected at most 16 MiB" in text


@pytest.mark.parametrize("place", ["/token", "ftp://x/", "http://[bad", "file:///etc/passwd", "http://a..b/"])
def test_token_service_that_leads_nowhere_is_one_error(place: str) -> None:
    assert "/token" in refused(with_token(Reply(302, {"Location": place})), lambda to: to.size(BLOB))


def test_a_redirect_to_ftp_is_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"ftp://127.0.0.1:{listener.getsockname()[1]}/"
        assert "status 302" in refused(with_token(Reply(302, {"Location": place})), lambda to: to.size(BLOB))
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has connected
            listener.accept()


@pytest.mark.parametrize("realm", ["", "file:///etc/passwd", "http://[bad", "https:///token", "http://tokens.example/"])
def test_realm_that_is_no_safe_address_gets_no_credentials(realm: str) -> None:
    text = refused(lambda _: Reply(401, {"WWW-Authenticate": f'Bearer realm="{realm}"'}), lambda to: to.size(BLOB))
    assert "expected a token service with https" in text


@pytest.mark.parametrize(
    "body", [*NOT_JSON, b"{}", b'{"layers": []}', b'{"config": {"digest": "d"}, "layers": [{"size": "1"}]}']
)
def test_manifest_that_is_none_is_one_error(body: bytes) -> None:
    assert "manifests/tag: expected a manifest" in refused(
        lambda _: Reply(200, MANIFEST, body), lambda to: to.manifest("tag")
    )


def test_page_of_a_web_server_is_no_manifest_and_no_missing_one() -> None:
    assert "found text/html" in refused(lambda _: Reply(200, HTML, b"<html>"), lambda to: to.manifest("tag"))


@pytest.mark.parametrize("place", ["", "ftp://x/up", "http://[bad", "file:///etc/passwd", "//["])
def test_location_of_an_upload_that_is_no_address_is_one_error(place: str, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob")
    text = refused(lambda _: Reply(202, {"Location": place}), lambda to: to.upload(path, BLOB))
    assert "expected a" in text


def test_upload_is_not_led_from_tls_to_plain_http(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob")
    with (
        serving(
            lambda _: Reply(202, {"Location": "http://127.0.0.1:1/up"}), authority.context("IP:127.0.0.1")
        ) as server,
        pytest.raises(RegistryError, match="expected an address with https"),
    ):
        repository(server.url, authority.bundle).upload(path, BLOB)


@pytest.mark.parametrize("length", ["x", "-5", "", "99999999999999999999"])
def test_length_of_a_blob_that_is_no_number_is_not_the_length_of_the_blob(length: str) -> None:
    with serving(lambda _: Reply(200, {"Content-Length": length})) as server:
        assert repository(server.url).size(BLOB) != 4


def test_user_who_may_not_push_is_told_when_an_upload_is_opened() -> None:
    body = json.dumps({"errors": [{"code": "UNSUPPORTED", "message": "The operation is unsupported."}]}).encode()
    assert "status 405, UNSUPPORTED" in refused(lambda _: Reply(405, body=body), lambda to: to.require_writable())


def test_upload_that_was_opened_to_ask_is_cancelled() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(202, {"Location": "/up/1?_state=s"}) if asked.method == "POST" else Reply(405)

    with serving(answer) as server:
        repository(server.url).require_writable()
    assert [(asked.method, asked.path) for asked in server.asked][1:] == [("DELETE", "/up/1?_state=s")]


@contextmanager
def silent(first: bytes) -> Iterator[str]:
    """The address of a server that accepts every connection, sends `first` and nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            kept.append(connection)
            connection.sendall(first)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_registry_that_accepts_and_never_answers_is_tried_twice(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.2)
    waited: list[float] = []
    with silent(first) as url, pytest.raises(SilentError, match=r"no answer within 0\.2 s"):
        repository(url, waited=waited).blob(BLOB)
    assert len(waited) == 1


@pytest.mark.parametrize("refusals", [2, 3])
def test_blob_that_the_registry_does_not_see_for_a_moment_fails_the_third_time(refusals: int) -> None:
    body = b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown to registry"}]}'
    replies = [Reply(404, {}, body)] * refusals + [Reply(201)]
    waited: list[float] = []
    with serving(lambda _: replies.pop(0)) as server:
        to = repository(server.url, waited=waited)
        if refusals == 2:
            to.put_manifest("tag", Manifest(b"{}", KINDS[0]))
        else:
            with pytest.raises(UnknownBlobError, match="MANIFEST_BLOB_UNKNOWN"):
                to.put_manifest("tag", Manifest(b"{}", KINDS[0]))
    assert len(waited) == 2
