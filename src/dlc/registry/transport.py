"""One request to a registry: authentication by the registry's challenge, and answers as values or typed errors."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from dlc.errors import RegistryError
from dlc.registry.address import is_loopback
from dlc.registry.credentials import Credentials

TIMEOUT_SECONDS = 300.0  # of one read or write: a registry hashes a layer of gigabytes before it answers
ANSWER_LIMIT = 16 << 20  # bytes; manifests and configurations are some kilobytes
PARAMETER = re.compile(r'(\w+)="([^"]*)"')  # of a challenge
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


class TransientError(RegistryError):
    """It may work in a moment: the connection broke, or the registry is busy or restarting."""


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; no body where the request was HEAD."""

    status: int
    headers: Message
    body: bytes


class Transport:
    """Requests to one registry about one repository, as one user."""

    def __init__(self, url: str, repository: str, credentials: Credentials | None = None, ca: Path | None = None):
        self.url = url
        self.host = urllib.parse.urlsplit(url).netloc
        self._repository = repository
        self._credentials = credentials
        self._authorization = ""
        handlers: list[urllib.request.BaseHandler] = []
        if is_loopback(self.host):
            handlers.append(urllib.request.ProxyHandler({}))  # nobody else's proxy reaches our own interface
        else:
            context = ssl.create_default_context()
            if ca:
                context.load_verify_locations(ca)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def send(
        self, method: str, path: str, *, body: bytes | Path | None = None, headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (200,),
    ) -> Answer:  # fmt: skip
        """The answer to a request for `path` (or a whole URL, as uploads have it), whose status must be in `accept`.

        A body that is a Path is streamed from that file. Raises TransientError, and RegistryError for what will fail
        again. Messages have neither queries, which may hold tokens, nor headers.
        """
        url = urllib.parse.urljoin(self.url, path)
        answer = self._open(method, url, body, headers or {}, self._authorization_for(url))
        if answer.status == 401 and self._is_ours(url):
            self._authorization = self._authorize(answer.headers.get_all("WWW-Authenticate") or [])
            answer = self._open(method, url, body, headers or {}, self._authorization)
        if answer.status not in accept:
            raise self._refusal(method, url, answer)
        return answer

    def _is_ours(self, url: str) -> bool:
        """Whether credentials may go there: the location of an upload can be another host's, signed by itself."""
        return urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(self.url)[:2]

    def _authorization_for(self, url: str) -> str:
        return self._authorization if self._is_ours(url) else ""

    def _open(
        self, method: str, url: str, body: bytes | Path | None, headers: Mapping[str, str], authorization: str
    ) -> Answer:
        where = f"{method} {_without_query(url)}"
        with ExitStack() as stack:
            data = stack.enter_context(body.open("rb")) if isinstance(body, Path) else body
            request = urllib.request.Request(url, data, dict(headers), method=method)  # noqa: S310 (http and https)
            if body is not None:
                request.add_header("Content-Length", str(_length(body)))
                request.add_unredirected_header("Content-Type", headers.get("Content-Type", "application/octet-stream"))
            if authorization:
                # Not to be sent where a redirect leads: blobs are often served by a storage service.
                request.add_unredirected_header("Authorization", authorization)
            try:
                try:
                    response = stack.enter_context(self._opener.open(request, timeout=TIMEOUT_SECONDS))
                except urllib.error.HTTPError as error:
                    response = stack.enter_context(error)
                content = b"" if method == "HEAD" else response.read(ANSWER_LIMIT)
                return Answer(response.status, response.headers, content)
            except (OSError, http.client.HTTPException) as error:
                raise _broken(where, error) from None

    def _authorize(self, challenges: list[str]) -> str:
        """The header that satisfies one of the registry's challenges. Raises RegistryError where none can be met."""
        for challenge in challenges:
            scheme, _, rest = challenge.partition(" ")
            if scheme.lower() == "bearer":
                return f"Bearer {self._token(dict(PARAMETER.findall(rest)))}"
            if scheme.lower() == "basic" and self._credentials and not self._credentials.identity:
                return self._credentials.basic
        raise self._unauthorized()

    def _token(self, challenge: Mapping[str, str]) -> str:
        """A token for pull and push, from the service that the registry names."""
        realm = challenge.get("realm", "")
        if not (realm.startswith("https://") or is_loopback(urllib.parse.urlsplit(realm).netloc)):
            raise RegistryError(f"{self.host}: expected a token service with https, found {realm or 'none'}")
        query = {"service": challenge.get("service", ""), "scope": f"repository:{self._repository}:pull,push"}
        known = self._credentials
        if known and known.identity:
            form = {**query, "grant_type": "refresh_token", "refresh_token": known.secret, "client_id": "dlc"}
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = self._open("POST", realm, urllib.parse.urlencode(form).encode(), kind, "")
        else:
            url = f"{realm}?{urllib.parse.urlencode(query)}"
            answer = self._open("GET", url, None, {}, known.basic if known else "")
        if answer.status in (400, 401, 403):
            raise self._unauthorized()
        if answer.status != 200:
            raise self._refusal("GET", realm, answer)
        found = json.loads(answer.body)
        return str(found.get("token") or found["access_token"])

    def _unauthorized(self) -> RegistryError:
        if self._credentials is None:
            return RegistryError(
                f"{self.host}: expected credentials for {self._repository}, found none in the docker configuration",
                f"docker login {self.host}",
            )
        return RegistryError(
            f"{self.host}: expected leave to push to {self._repository}, found it refused to user "
            f"{self._credentials.user}",
            f"docker login {self.host}, as a user who may push there",
        )

    def _refusal(self, method: str, url: str, answer: Answer) -> RegistryError:
        if answer.status in (401, 403):
            return self._unauthorized()
        text = f"{method} {_without_query(url)}: status {answer.status}{_said(answer.body)}"
        if answer.status in TRANSIENT:
            return TransientError(text, "try again later: what was uploaded is kept")
        return RegistryError(text, "see what the registry allows: its name, path, size or tag rules")


def _broken(where: str, error: Exception) -> RegistryError:
    """The error that a failed connection is reported as; what cannot mend itself is not transient."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RegistryError(
            f"{where}: {cause.verify_message}", "name the CA bundle in DLC_CA_BUNDLE, or see the address"
        )
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
        return RegistryError(f"{where}: no host has this name", "see the address after --to")
    return TransientError(f"{where}: {cause or type(cause).__name__}", "see whether the registry runs, and try again")


def _said(body: bytes) -> str:
    """What the registry's JSON says went wrong, else nothing."""
    try:
        errors = json.loads(body)["errors"]
        return "".join(f", {error.get('code', '')}: {error.get('message', '')}" for error in errors)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""


def _without_query(url: str) -> str:
    return url.partition("?")[0]


def _length(body: bytes | Path) -> int:
    return len(body) if isinstance(body, bytes) else body.stat().st_size
