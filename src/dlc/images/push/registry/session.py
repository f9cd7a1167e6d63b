"""Requests to one registry about one repository, as one user, authenticated as the registry asks."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from dlc.core.errors import RegistryError
from dlc.images.push.registry.address import is_loopback
from dlc.images.push.registry.credentials import Credentials
from dlc.images.push.registry.http_request import NO_REGISTRY, Answer, opener_for, refusal, request, without_query

PARAMETER = re.compile(r'(\w+)="([^"]*)"')  # of a challenge
TOKEN = re.compile(r"[\x21-\x7e]+")  # it becomes a header
ECR_REMEDY = (  # its tokens are of the user AWS, whoever asked for them
    "check the permissions of this AWS user (aws sts get-caller-identity); a `docker login` ends after 12 hours"
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Session:
    """Credentials are sent to the registry itself and to the token service that it names, and nowhere else."""

    def __init__(
        self, url: str, repository: str, credentials: Credentials | None = None, ca: Path | None = None,
        *, also_read: str = "",
    ) -> None:  # fmt: skip
        """With `also_read`, another repository, its tokens are good for reading that one too."""
        self.url = url
        self._scopes = [f"repository:{repository}:pull,push"]
        self._scopes += [f"repository:{also_read}:pull"] if also_read else []
        self.registry = urllib.parse.urlsplit(url).netloc
        self._repository = repository
        self._credentials = credentials
        self._authorization = ""
        self._opener = opener_for(self.registry, ca)

    def send(
        self, method: str, path: str, *, body: bytes | Path | None = None, headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (200,),
    ) -> Answer:  # fmt: skip
        """The answer to a request for `path` (or a whole URL, as uploads have it), whose status must be in `accept`.

        Raises TransientError, and RegistryError for what will fail again.
        """
        url = self._absolute(path)
        # The location of an upload can be another host's, signed by itself.
        ours = urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(self.url)[:2]
        answer = request(self._opener, method, url, body, headers, self._authorization if ours else "")
        if answer.status == 401 and ours:
            self._authorization = self._authorize(answer.headers.get_all("WWW-Authenticate") or [])
            answer = request(self._opener, method, url, body, headers, self._authorization)
        if answer.status in (401, 403):
            raise self._unauthorized()
        if answer.status not in accept:
            raise refusal(answer)
        return answer

    def _absolute(self, path: str) -> str:
        """A path of this registry, or an address that it named. Raises RegistryError for what no client may follow."""
        try:
            url = urllib.parse.urljoin(self.url, path)
            parts = urllib.parse.urlsplit(url)
            usable = bool(parts.hostname) and parts.scheme in ("https", urllib.parse.urlsplit(self.url).scheme)
        except ValueError:
            usable = False
        if not usable:
            raise RegistryError(
                f"{self.registry}: expected an address with https, found {without_query(path)!r}", NO_REGISTRY
            )
        return url

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
        if not _is_safe(realm):
            raise RegistryError(f"{self.registry}: expected a token service with https, found {realm or 'none'}")
        service = {"service": challenge.get("service", "")}
        known = self._credentials
        if known and known.identity:
            form = {**service, "scope": " ".join(self._scopes), "grant_type": "refresh_token"}
            form |= {"refresh_token": known.secret, "client_id": "dlc"}
            answer = request(self._opener, "POST", realm, urllib.parse.urlencode(form).encode(), FORM)
        else:
            basic = known.basic if known else ""
            query = urllib.parse.urlencode({**service, "scope": self._scopes}, doseq=True)
            answer = request(self._opener, "GET", f"{realm}?{query}", authorization=basic)
        if answer.status in (400, 401, 403):
            raise self._unauthorized()
        if answer.status != 200:
            raise refusal(answer)
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
        user = self._credentials.user
        return RegistryError(
            f"{self.registry}: expected push rights for user {user} on {self._repository}, found the push refused",
            ECR_REMEDY if user == "AWS" else f"docker login {self.registry}, as a user who may push there",
        )


def _is_safe(realm: str) -> bool:
    """Whether credentials may be sent to a token service: TLS, or this host itself."""
    try:
        parts = urllib.parse.urlsplit(realm)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.netloc)))
