"""Requests to one registry: answers as values, failed connections as typed errors, logins as the registry asks."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import string
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, ClassVar

import urllib3

from dlc.core.environment import hide_password
from dlc.core.errors import RegistryError
from dlc.registry.client.connections import BLOCK, find_proxy, make_context, open_pools
from dlc.registry.client.credentials import Credentials, is_loopback

# The bound of one read or write, and of a whole answer.
ANSWER_SECONDS = 30.0
# The same for a file: a registry hashes and moves gigabytes before it answers, and a line may be slow.
UPLOAD_SECONDS = 300.0
# Manifests and configurations are some kilobytes.
ANSWER_BYTES = 16 << 20
MOST_REDIRECTS = 10
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
# Error codes of the distribution specification.
UNKNOWN_BLOB = ("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN")
NO_REGISTRY = "check that a container registry answers there, and not a proxy or a login page"
KEEP_TRYING = "check that the registry runs, and push again: what it has is not sent twice"
# OpenSSL's codes for a certificate of another host name or address.
WRONG_NAME = (62, 64)
# Not yet valid, and expired.
WRONG_TIME = (9, 10)
# http.client begins its message so.
PROXY_REFUSES = re.compile(r"Tunnel connection failed: (4\d\d .*)")
PROXY_REMEDY = "correct HTTPS_PROXY, or name the registry's host in NO_PROXY"
# A parameter of a challenge.
PARAMETER = re.compile(r'(\w+)="([^"]*)"')
# A token becomes a header.
TOKEN = re.compile(r"[\x21-\x7e]+")
# ECR's tokens are of the user AWS, whoever asked for them.
ECR_REMEDY = (
    "check the permissions of this AWS user (aws sts get-caller-identity); a `docker login` ends after 12 hours"
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class TransientError(RegistryError):
    """A second try may work: the connection broke, or the registry is busy or restarting."""

    # None: as many as the caller allows.
    tries: ClassVar[int | None] = None
    # Seconds that the registry asks to wait before it is asked again.
    after = 0.0


class SilentError(TransientError):
    """No answer in time: one more try may help, more will not."""

    tries = 2


class UnreadableError(RegistryError):
    """Something that somebody has pushed is nothing that dlc can read. `data` are its bytes, if they are known."""

    def __init__(self, message: str, remedy: str = "", data: bytes = b"") -> None:
        super().__init__(message, remedy)
        self.data = data


class TooLargeError(UnreadableError):
    """The answer is larger than any manifest, configuration or statement is."""


class UnknownBlobError(TransientError):
    """The registry does not see a blob that was sent.

    It may see it a moment later: it writes its link to the blob again when another client sends the same content.
    """

    tries = 3


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; no body if the request was HEAD. `where` says for messages what was asked."""

    status: int
    headers: Message
    body: bytes
    where: str

    def json(self, expected: str) -> dict[str, Any]:
        """Return the body as a JSON object.

        Raises UnreadableError, which says what was `expected` and never shows the body.
        """
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            # UnicodeDecodeError is a ValueError.
            found = None
        if not isinstance(found, dict):
            what = f"{len(self.body)} bytes of {self.headers.get_content_type()}"
            text = f"{self.where}: expected {expected} as a JSON object, found {what}"
            raise UnreadableError(text, NO_REGISTRY, self.body)
        return found


def send_request(
    ca: Path | None, method: str, url: str, body: bytes | Path | None = None,
    headers: Mapping[str, str] | None = None, authorization: str = "",
) -> Answer:  # fmt: skip
    """Return any answer, whatever its status, after redirects. A body that is a Path is streamed from that file.

    `ca` is a bundle of authorities that are trusted beside the host's.

    Raises TransientError if the connection failed, RegistryError if it would fail again.
    """
    where = f"{method} {strip_query(url)}"
    asked = dict(headers or {})
    # Not to be sent where a redirect leads: blobs are often served by a storage service.
    login = {"Authorization": authorization} if authorization else {}
    answer = _send_once(ca, method, url, body, {**asked, **login}, where)
    for _ in range(MOST_REDIRECTS):
        if not (url := _find_next(method, url, answer)):
            break
        asked = {name: value for name, value in asked.items() if not name.startswith("Content-")}
        method = method if method == "HEAD" else "GET"
        answer = _send_once(ca, method, url, None, asked, where)
    return answer


def _send_once(
    ca: Path | None, method: str, url: str, body: bytes | Path | None, headers: Mapping[str, str], where: str
) -> Answer:  # fmt: skip
    """Return the answer to one request. `where` says for messages what was asked."""
    seconds = UPLOAD_SECONDS if isinstance(body, Path) else ANSWER_SECONDS
    # A piece of a layer takes as long as a slow line needs for it.
    whole = UPLOAD_SECONDS if "Range" in headers else ANSWER_SECONDS
    with ExitStack() as stack:
        # Opened before the request, so that a missing file is not taken for a broken connection.
        data = stack.enter_context(body.open("rb")) if isinstance(body, Path) else body
        if body is not None:
            size = body.stat().st_size if isinstance(body, Path) else len(body)
            headers = {"Content-Type": "application/octet-stream", **headers, "Content-Length": str(size)}
        try:
            response = open_pools(ca, find_proxy(url)).urlopen(
                method, url, redirect=False, retries=False, body=data, headers=headers, timeout=seconds,
                preload_content=False, decode_content=False,
            )  # fmt: skip
            stack.enter_context(response)
            said = Message()
            for name, value in response.headers.items():
                said[name] = value
            return Answer(response.status, said, _read_body(response, where, whole), where)
        except ValueError as error:
            # An address in a Location, in a realm or of a proxy is malformed.
            raise RegistryError(f"{where}: a broken address: {error}", NO_REGISTRY) from None
        except (OSError, http.client.HTTPException, urllib3.exceptions.HTTPError) as error:
            raise _connection_error(where, error, seconds, hide_password(find_proxy(url))) from None


def _find_next(method: str, url: str, answer: Answer) -> str:
    """Return where a redirect leads, by urllib's rules; empty for an answer that stands.

    It is not followed from TLS to plain HTTP, nor to FTP, nor with a body.
    """
    place = answer.headers.get("Location", "")
    if not place or answer.status not in ((301, 302, 303) if method == "POST" else (301, 302, 303, 307, 308)):
        return ""
    if method not in ("GET", "HEAD", "POST"):
        return ""
    try:
        # http.client reads bytes that are no ASCII as this encoding's.
        found = urllib.parse.urljoin(url, urllib.parse.quote(place, string.punctuation, "iso-8859-1"))
    except ValueError as error:
        raise RegistryError(f"{answer.where}: a broken address: {error}", NO_REGISTRY) from None
    return found if found.startswith("https:" if url.startswith("https:") else ("http:", "https:")) else ""


def _read_body(response: urllib3.BaseHTTPResponse, where: str, seconds: float) -> bytes:
    """Return the whole body, within ANSWER_BYTES bytes and so many seconds however slowly it comes."""
    end = time.monotonic() + seconds
    found = bytearray()
    while block := response.read1(BLOCK):
        found += block
        if len(found) > ANSWER_BYTES:
            raise TooLargeError(f"{where}: expected at most {ANSWER_BYTES >> 20} MiB, found more", NO_REGISTRY)
        if time.monotonic() > end:
            raise SilentError(f"{where}: no whole answer within {seconds:g} s", KEEP_TRYING)
    return bytes(found)


def refusal_error(answer: Answer) -> RegistryError:
    """Return the error for an unexpected status."""
    text = f"{answer.where}: status {answer.status}{_quote_registry(answer.body)}"
    if answer.status in TRANSIENT:
        error = TransientError(text, KEEP_TRYING)
        error.after = _parse_retry_after(answer.headers.get("Retry-After", ""))
        return error
    if any(code in UNKNOWN_BLOB for code, _ in _parse_errors(answer.body)):
        return UnknownBlobError(text, "push again: blobs that the registry has are not sent twice")
    return RegistryError(text, "check what the registry allows: names, paths, sizes, tags")


def _parse_retry_after(text: str) -> float:
    """Return the header's seconds, or seconds until its date; 0 if it is neither, or past."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max((parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        # This is no date, or a date without a time zone.
        return 0.0


def strip_query(url: str) -> str:
    """Return an address for messages: queries may hold tokens and signatures."""
    return url.partition("?")[0]


def _connection_error(where: str, error: Exception, seconds: float, proxy: str) -> RegistryError:
    """Return the error for a failed connection, by a proxy if there is one; transient if a second try may work."""
    cause = next((each for each in _list_causes(error) if isinstance(each, OSError | http.client.HTTPException)), error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RegistryError(f"{where}: {cause.verify_message}", _advise_on_certificate(cause.verify_code))
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RegistryError(f"{where}: no TLS: {cause.reason}", "check that a registry with TLS listens there")
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
        if proxy:
            return RegistryError(f"{where}: no host has the name of the proxy {proxy}", PROXY_REMEDY)
        return RegistryError(f"{where}: no host has this name", "check the registry's name")
    if refused := PROXY_REFUSES.search(str(cause)):
        return RegistryError(f"{where}: the proxy refuses: {refused[1]}", PROXY_REMEDY)
    if isinstance(cause, TimeoutError):
        return SilentError(f"{where}: no answer within {seconds:g} s", KEEP_TRYING)
    if proxy and isinstance(cause, ConnectionRefusedError):
        return TransientError(f"{where}: the proxy {proxy}: {cause.strerror}", PROXY_REMEDY)
    return TransientError(f"{where}: {cause or type(cause).__name__}", KEEP_TRYING)


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and the errors that it comes from: urllib3 raises its own ones for those of the connection."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _advise_on_certificate(code: int) -> str:
    if code in WRONG_NAME:
        return "push to the name that the registry's certificate has"
    if code in WRONG_TIME:
        return f"renew the registry's certificate, unless this machine's clock is wrong: it says {datetime.now(UTC):%F}"
    return "name the CA bundle in DLC_CA_BUNDLE"


def _quote_registry(body: bytes) -> str:
    """Return what the registry's JSON says went wrong, else nothing."""
    return "".join(f", {code}: {message}" for code, message in _parse_errors(body))


def _parse_errors(body: bytes) -> list[tuple[str, str]]:
    """Return code and message of each error in the registry's JSON; none if it is something else."""
    try:
        return [(str(error.get("code", "")), str(error.get("message", ""))) for error in json.loads(body)["errors"]]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return []


class Session:
    """Credentials are sent to the registry itself and to the token service that it names, and nowhere else."""

    def __init__(
        self, url: str, repository: str, credentials: Credentials | None = None, ca: Path | None = None,
        *, also_read: str = "", actions: str = "pull,push",
    ) -> None:  # fmt: skip
        """Make a session whose tokens are good for these actions, and for reading `also_read`, another repository."""
        self.url = url
        self._verb = actions.rpartition(",")[2]
        self._scopes = [f"repository:{repository}:{actions}"]
        self._scopes += [f"repository:{also_read}:pull"] if also_read else []
        self.registry = urllib.parse.urlsplit(url).netloc
        self._repository = repository
        self._credentials = credentials
        self._authorization = ""
        make_context(ca)
        self._ca = ca

    def send(
        self, method: str, path: str, *, body: bytes | Path | None = None, headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (200,),
    ) -> Answer:  # fmt: skip
        """Return the answer to a request for `path` (or a whole URL, as uploads have it).

        Its status must be in `accept`.

        Raises TransientError, and RegistryError for what will fail again.
        """
        url = self._absolute(path)
        # The location of an upload can be another host's, signed by itself.
        ours = urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(self.url)[:2]
        answer = send_request(self._ca, method, url, body, headers, self._authorization if ours else "")
        if answer.status == 401 and ours:
            self._authorization = self._authorize(answer.headers.get_all("WWW-Authenticate") or [])
            answer = send_request(self._ca, method, url, body, headers, self._authorization)
        if answer.status in (401, 403):
            raise self._unauthorized()
        if answer.status not in accept:
            raise refusal_error(answer)
        return answer

    def _absolute(self, path: str) -> str:
        """Return a path of this registry, or an address that it named.

        Raises RegistryError for what no client may follow.
        """
        try:
            url = urllib.parse.urljoin(self.url, path)
            parts = urllib.parse.urlsplit(url)
            usable = bool(parts.hostname) and parts.scheme in ("https", urllib.parse.urlsplit(self.url).scheme)
        except ValueError:
            usable = False
        if not usable:
            raise RegistryError(
                f"{self.registry}: expected an address with https, found {strip_query(path)!r}", NO_REGISTRY
            )
        return url

    def _authorize(self, challenges: list[str]) -> str:
        """Return the header that satisfies one of the registry's challenges.

        Raises RegistryError if none can be met.
        """
        for challenge in challenges:
            scheme, _, rest = challenge.partition(" ")
            if scheme.lower() == "bearer":
                return f"Bearer {self._token(dict(PARAMETER.findall(rest)))}"
            if scheme.lower() == "basic" and self._credentials and not self._credentials.identity:
                return self._credentials.basic
        raise self._unauthorized()

    def _token(self, challenge: Mapping[str, str]) -> str:
        """Get a token for pull and push, from the service that the registry names."""
        realm = challenge.get("realm", "")
        if not _is_safe(realm):
            raise RegistryError(f"{self.registry}: expected a token service with https, found {realm or 'none'}")
        service = {"service": challenge.get("service", "")}
        known = self._credentials
        if known and known.identity:
            form = {**service, "scope": " ".join(self._scopes), "grant_type": "refresh_token"}
            form |= {"refresh_token": known.secret, "client_id": "dlc"}
            answer = send_request(self._ca, "POST", realm, urllib.parse.urlencode(form).encode(), FORM)
        else:
            basic = known.basic if known else ""
            query = urllib.parse.urlencode({**service, "scope": self._scopes}, doseq=True)
            answer = send_request(self._ca, "GET", f"{realm}?{query}", authorization=basic)
        if answer.status in (400, 401, 403):
            raise self._unauthorized()
        if answer.status != 200:
            raise refusal_error(answer)
        found = answer.json("a token")
        token = found.get("token") or found.get("access_token")
        if not (isinstance(token, str) and TOKEN.fullmatch(token)):
            raise RegistryError(f"{answer.where}: expected a token, found none in the answer", NO_REGISTRY)
        return token

    def _unauthorized(self) -> RegistryError:
        if self._credentials is None:
            return RegistryError(
                f"{self.registry}: expected credentials for {self._repository}, found none in the docker configuration",
                f"docker login {self.registry}",
            )
        user, verb = self._credentials.user, self._verb
        return RegistryError(
            f"{self.registry}: expected {verb} rights for user {user} on {self._repository}, found the {verb} refused",
            ECR_REMEDY if user == "AWS" else f"docker login {self.registry}, as a user who may {verb} there",
        )


def _is_safe(realm: str) -> bool:
    """Tell whether credentials may be sent to a token service: TLS, or this host itself."""
    try:
        parts = urllib.parse.urlsplit(realm)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.netloc)))
