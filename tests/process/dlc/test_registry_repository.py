"""registry: authentication, retries and uploads, against a server that misbehaves as registries do."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_server import Asked, Reply, refusing_proxy, serving

from dlc.core.errors import RegistryError
from dlc.registry.client import http
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session, SilentError, TransientError
from dlc.registry.client.repository import DELAYS_SECONDS, KINDS, Manifest, Repository, make_digest

ME = Credentials("me", "hunter2")
BASIC = "Basic " + base64.b64encode(b"me:hunter2").decode()
BLOB = make_digest(b"blob")


def repository(url: str, credentials: Credentials | None = None, waited: list[float] | None = None) -> Repository:
    """A client that does not wait, and says how long it would have."""
    waits = [] if waited is None else waited
    return Repository(Session(url, "team/toy", credentials), "team/toy", sleep=waits.append)


def replies(*given: Reply) -> Callable[[Asked], Reply]:
    """One after the other, the last again and again."""
    left: Iterator[Reply] = iter(given)
    return lambda _: next(left, given[-1])


def challenge(text: str) -> Reply:
    return Reply(401, {"WWW-Authenticate": text})


def test_basic_credentials_are_sent_once_asked_for_and_kept() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(404) if asked.headers.get("Authorization") == BASIC else challenge('Basic realm="r"')

    with serving(answer) as server:
        client = repository(server.url, ME)
        assert client.size(BLOB) is None
        assert client.size(BLOB) is None
    assert [asked.headers.get("Authorization") for asked in server.asked] == [None, BASIC, BASIC]


def test_token_is_fetched_from_the_service_that_the_challenge_names() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/token"):
            return Reply(200, body=json.dumps({"token": "T"}).encode())
        if asked.headers.get("Authorization") == "Bearer T":
            return Reply(200, {"Content-Length": "4"})
        return challenge(f'Bearer realm="http://{asked.headers["Host"]}/token",service="s",scope="ignored"')

    with serving(answer) as server:
        assert repository(server.url, ME).size(BLOB) == 4
    token = server.asked[1]
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(token.path).query))
    assert asked == {"service": "s", "scope": "repository:team/toy:pull,push"}
    assert token.headers["Authorization"] == BASIC


def test_identity_token_is_exchanged_in_a_form_and_never_in_an_address() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/token"):
            return Reply(200, body=b'{"access_token": "T"}')
        if asked.headers.get("Authorization") == "Bearer T":
            return Reply(404)
        return challenge(f'Bearer realm="http://{asked.headers["Host"]}/token",service="s"')

    with serving(answer) as server:
        repository(server.url, Credentials("<token>", "refresh", identity=True)).size(BLOB)
    token = server.asked[1]
    assert (token.method, token.path) == ("POST", "/token")
    assert dict(urllib.parse.parse_qsl(token.body.decode()))["refresh_token"] == "refresh"
    assert "Authorization" not in token.headers


def test_expired_token_is_fetched_anew() -> None:
    tokens = iter("AB")

    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/token"):
            return Reply(200, body=json.dumps({"token": next(tokens)}).encode())
        valid = "Bearer A" if len(server.asked) < 5 else "Bearer B"
        given = asked.headers.get("Authorization")
        return Reply(404) if given == valid else challenge(f'Bearer realm="http://{asked.headers["Host"]}/token"')

    with serving(answer) as server:
        client = repository(server.url, ME)
        for _ in range(3):
            assert client.size(BLOB) is None


@pytest.mark.parametrize(
    ("credentials", "words"),
    [(None, "found none in the docker configuration"), (ME, "expected push rights for user me on team/toy")],
)
@pytest.mark.parametrize("status", [401, 403])
def test_refused_user_is_told_to_log_in_at_once_and_without_the_secret(
    credentials: Credentials | None, words: str, status: int
) -> None:
    waited: list[float] = []
    with serving(lambda _: Reply(status, {"WWW-Authenticate": 'Basic realm="r"'})) as server:
        with pytest.raises(RegistryError, match=words) as caught:
            repository(server.url, credentials, waited).manifest("tag")
        assert f"docker login {server.host}" in caught.value.remedy
    assert "hunter2" not in str(caught.value)
    assert waited == []


def test_credentials_are_not_sent_to_a_token_service_without_tls() -> None:
    with (
        serving(lambda _: challenge('Bearer realm="http://tokens.example/token"')) as server,
        pytest.raises(RegistryError, match="expected a token service with https"),
    ):
        repository(server.url, ME).size(BLOB)


def test_credentials_do_not_follow_a_redirect_to_a_storage_service() -> None:
    with serving(lambda _: Reply(200, body=b"blob")) as storage:

        def answer(asked: Asked) -> Reply:
            if "Authorization" not in asked.headers:
                return challenge('Basic realm="r"')
            return Reply(307, {"Location": f"{storage.url}/signed?X-Signature=s"})

        with serving(answer) as server:
            assert repository(server.url, ME).blob(BLOB) == b"blob"
    assert [asked.path for asked in storage.asked] == ["/signed?X-Signature=s"]
    assert "Authorization" not in storage.asked[0].headers


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503, 504])
def test_what_may_mend_itself_is_tried_again_after_growing_delays(status: int) -> None:
    waited: list[float] = []
    said: list[str] = []
    with serving(replies(Reply(status), Reply(status), Reply(404))) as server:
        client = Repository(Session(server.url, "team/toy"), "team/toy", said.append, waited.append)
        assert client.size(BLOB) is None
    assert waited == list(DELAYS_SECONDS[:2])
    assert [line.rpartition("; ")[2] for line in said] == ["again in 1 s", "again in 2 s"]


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("7", 7.0),
        ("0", DELAYS_SECONDS[0]),
        ("Thu, 01 Jan 1970 00:00:00 GMT", DELAYS_SECONDS[0]),
        ("soon", DELAYS_SECONDS[0]),
    ],
    ids=["seconds", "none", "a past date", "no number"],
)
def test_a_registry_that_says_when_to_ask_again_is_not_asked_earlier(asked: str, seconds: float) -> None:
    waited: list[float] = []
    with serving(replies(Reply(429, {"Retry-After": asked}), Reply(404))) as server:
        assert repository(server.url, ME, waited).size(BLOB) is None
    assert waited == [seconds]


def test_a_registry_may_say_the_time_at_which_to_ask_again() -> None:
    waited: list[float] = []
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=250), usegmt=True)
    with serving(replies(Reply(429, {"Retry-After": later}), Reply(404))) as server:
        assert repository(server.url, ME, waited).size(BLOB) is None
    assert waited == [pytest.approx(150, abs=100)]


def test_a_registry_that_asks_to_wait_for_long_is_left_to_the_user() -> None:
    waited: list[float] = []
    busy = Reply(503, {"Retry-After": "3600"})
    with serving(lambda _: busy) as server, pytest.raises(RegistryError, match="asks to wait 3600 s") as caught:
        repository(server.url, ME, waited).size(BLOB)
    assert (waited, caught.value.remedy) == ([], "push again in 3600 s")


def test_what_a_registry_says_does_not_command_the_terminal() -> None:
    body = json.dumps({"errors": [{"code": "DENIED", "message": "\x1b]0;title\x07\x1b[31mno\r"}]}).encode()
    with serving(lambda _: Reply(400, body=body)) as server, pytest.raises(RegistryError) as caught:
        repository(server.url, ME).blob(BLOB)
    assert r"DENIED: \x1b]0;title\x07\x1b[31mno\r" in str(caught.value)
    assert {each for each in str(caught.value) if not each.isprintable()} == {"\n"}


def test_registry_that_stays_away_is_an_error_after_the_last_try() -> None:
    with serving(lambda _: Reply(0)) as server:
        pass
    waited: list[float] = []
    with pytest.raises(TransientError, match="Connection refused") as caught:
        repository(server.url, ME, waited).size(BLOB)
    assert waited == list(DELAYS_SECONDS)
    assert caught.value.exit_code == RegistryError.exit_code


@pytest.mark.parametrize("status", [400, 405, 413, 507])
def test_what_will_fail_again_is_told_at_once_with_the_registrys_reason(status: int) -> None:
    waited: list[float] = []
    body = b'{"errors": [{"code": "NAME_INVALID", "message": "no such name"}]}'
    with serving(lambda _: Reply(status, body=body)) as server, pytest.raises(RegistryError) as caught:
        repository(server.url, ME, waited).put_manifest("tag", Manifest(b"{}", KINDS[0]))
    assert f"status {status}, NAME_INVALID: no such name" in caught.value.message
    assert waited == []


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"errors": null}', b'{"errors": ["x"]}'])
def test_reason_that_is_not_what_registries_say_is_left_out(body: bytes) -> None:
    with serving(lambda _: Reply(400, body=body)) as server, pytest.raises(RegistryError) as caught:
        repository(server.url).blob(BLOB)
    assert caught.value.message.endswith(": status 400")


@pytest.mark.parametrize("status", [403, 407])
def test_a_proxy_that_refuses_is_told_at_once_and_is_not_taken_for_the_registry(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    with refusing_proxy(status, monkeypatch):
        with pytest.raises(RegistryError, match=f"the proxy refuses: {status}") as caught:
            repository("https://registry.example", ME, waited).size(BLOB)
        assert "NO_PROXY" in caught.value.remedy
        del caught
    assert waited == []


def test_an_answer_that_a_proxy_cuts_off_is_asked_for_again() -> None:
    waited: list[float] = []
    cut = Reply(200, {"Content-Length": "100"}, b"blob")
    with serving(replies(cut, Reply(200, body=b"blob"))) as server:
        assert repository(server.url, ME, waited).blob(BLOB) == b"blob"
    assert waited == [DELAYS_SECONDS[0]]


def test_host_that_does_not_exist_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    waited: list[float] = []
    with pytest.raises(RegistryError, match="no host has this name"):
        repository("https://registry.invalid", ME, waited).size(BLOB)
    assert waited == []


def test_upload_streams_the_file_to_the_place_that_the_registry_names(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob")

    def answer(asked: Asked) -> Reply:
        return (
            Reply(202, {"Location": "/v2/team/toy/blobs/uploads/1?_state=s"}) if asked.method == "POST" else Reply(201)
        )

    with serving(answer) as server:
        repository(server.url).upload(path, BLOB)
    opened, sent = server.asked
    assert (opened.path, opened.body) == ("/v2/team/toy/blobs/uploads/", b"")
    assert sent.path == f"/v2/team/toy/blobs/uploads/1?_state=s&digest={urllib.parse.quote(BLOB)}"
    assert sent.body == b"blob"


def test_upload_that_breaks_begins_anew_with_a_new_place(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob" * 1_000_000)
    places = iter("12")

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            return Reply(202, {"Location": f"/up/{next(places)}"})
        return Reply(0 if asked.path.startswith("/up/1") else 201)

    with serving(answer) as server:
        repository(server.url).upload(path, BLOB)
    assert [asked.path.partition("?")[0] for asked in server.asked if asked.method == "PUT"] == ["/up/1", "/up/2"]


def test_upload_to_another_host_carries_no_credentials(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob")
    with serving(lambda _: Reply(201)) as storage:

        def answer(asked: Asked) -> Reply:
            if "Authorization" not in asked.headers:
                return challenge('Basic realm="r"')
            return Reply(202, {"Location": f"{storage.url}/signed"})

        with serving(answer) as server:
            repository(server.url, ME).upload(path, BLOB)
    assert "Authorization" not in storage.asked[0].headers


def test_messages_hold_no_query_because_it_may_hold_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"blob")
    given = replies(Reply(202, {"Location": "/up?_state=hunter2"}), Reply(400))
    with serving(given) as server, pytest.raises(RegistryError) as caught:
        repository(server.url).upload(path, BLOB)
    assert "hunter2" not in str(caught.value)


def test_manifest_is_what_its_bytes_say_whatever_the_registry_calls_it() -> None:
    data = json.dumps({"config": {"mediaType": "application/json", "digest": BLOB, "size": 2}, "layers": []}).encode()
    headers = {"Content-Type": f"{KINDS[0]}; charset=utf-8", "Docker-Content-Digest": "sha256:lie"}
    with serving(lambda _: Reply(200, headers, data)) as server:
        found = repository(server.url).manifest("tag")
    assert found == Manifest(data, KINDS[0])
    assert found.digest == make_digest(data)


def test_index_of_several_platforms_is_no_image() -> None:
    kind = "application/vnd.oci.image.index.v1+json"
    with serving(lambda _: Reply(200, {"Content-Type": kind}, b'{"manifests": []}')) as server:
        assert repository(server.url).manifest("tag") is None


def test_pages_of_tags_that_lead_in_a_circle_end() -> None:
    def answer(asked: Asked) -> Reply:
        first = "last=" not in asked.path
        tag, following = ("a", "last=a") if first or "last=b" in asked.path else ("b", "last=b")
        link = {"Link": f'</v2/team/toy/tags/list?{following}>; rel="next"'}
        return Reply(200, link, json.dumps({"tags": [tag, "no tag", "../x"]}).encode())

    with serving(answer) as server:
        assert repository(server.url).tags() == ["a", "b"]


def test_a_piece_of_a_layer_has_the_time_that_a_slow_line_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is a minute after the last one."""
    clock = itertools.count(step=60.0)
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with serving(replies(Reply(200, body=b"blob"))) as server:
        repository(server.url).download(BLOB, 4, tmp_path / "blob")
        assert (tmp_path / "blob").read_bytes() == b"blob"
        with pytest.raises(SilentError, match="no whole answer within 30 s"):
            repository(server.url).blob(BLOB)


def test_the_registrys_day_is_read_from_its_answers() -> None:
    with serving(replies(Reply(404))) as server:
        assert abs(repository(server.url).read_day() - datetime.now(UTC).date()) <= timedelta(days=1)
