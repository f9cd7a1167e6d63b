"""Addresses in registries, and the credentials that `docker login` keeps."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlc.core import environment
from dlc.core.errors import RegistryError, UsageError
from dlc.core.image_references import split_registry
from dlc.core.process import run_program

# Docker Hub is the one registry whose name, API and entry in the docker configuration differ.
HUB = "docker.io"
HUB_API = "registry-1.docker.io"
PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
HUB_ENTRY = "https://index.docker.io/v1/"
TOKEN_USER = "<token>"  # noqa: S105 (a helper's user name for an identity token)


@dataclass(frozen=True)
class Address:
    """A registry and the path below which the repositories lie, one for each framework."""

    # Its name with its port, as in `registry.example:5000`.
    registry: str
    path: str

    @property
    def url(self) -> str:
        """Return the root of the registry's API. Plain HTTP is used on this host only, as Docker does."""
        scheme = "http" if is_loopback(self.registry) else "https"
        return f"{scheme}://{HUB_API if self.registry == HUB else self.registry}"


def parse_address(text: str, option: str = "--to") -> Address:
    """Parse `REGISTRY/REPO`. Raises UsageError: a text without a registry's name would mean Docker Hub's."""
    registry, path = split_registry(text)
    if not (registry and PATH.fullmatch(path)):
        # Without a user and a password.
        public = re.sub(r"^.*@(?!sha256:)", "", text)
        raise UsageError(
            f"{option} {public}: expected REGISTRY/REPO, such as registry.example:5000/team or docker.io/team, or ecr",
            "the registry's name has a dot, a port or is localhost; REPO is lower-case, without a tag",
        )
    return Address(registry, path)


@dataclass(frozen=True)
class Reference:
    """An image in a registry. `tag` or `digest` may be empty."""

    address: Address
    tag: str
    digest: str

    @property
    def name(self) -> str:
        """Return what the registry is asked for: a digest goes before a tag."""
        return self.digest or self.tag


def parse_reference(text: str) -> Reference:
    """Parse `REGISTRY/REPO:TAG`, `REGISTRY/REPO@sha256:...`, or both: `REGISTRY/REPO:TAG@sha256:...`.

    Raises UsageError for anything else: without a tag it would be a tag that moves.
    """
    name, _, digest = text.partition("@")
    head, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    registry, path = split_registry(f"{head}/{last}")
    is_whole = (tag or digest) and all(
        not text or pattern.fullmatch(text) for text, pattern in ((tag, TAG), (digest, DIGEST))
    )
    if not (registry and PATH.fullmatch(path) and is_whole):
        raise UsageError(
            f"{text}: expected REGISTRY/REPO:TAG or REGISTRY/REPO@sha256:DIGEST, found another text",
            "the registry's name has a dot, a port or is localhost; dlc push prints whole references",
        )
    return Reference(Address(registry, path), tag, digest)


def is_loopback(name: str) -> bool:
    """Tell whether a name or address, with a port or without, is of this host: localhost, 127.0.0.0/8 or [::1]."""
    name = re.sub(r":\d+$", "", name).strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


@dataclass(frozen=True)
class Credentials:
    """A user and a secret, which no message shows. With `identity` the secret is an OAuth2 refresh token."""

    user: str
    secret: str = field(repr=False)
    identity: bool = False

    @property
    def basic(self) -> str:
        """Return the value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def read_credentials(registry: str, config: Path | None = None) -> Credentials | None:
    """Return what the user logged in with at `registry`; None if nobody did. Raises RegistryError.

    `config` is the docker client's file, by default in DOCKER_CONFIG or ~/.docker.
    """
    path = config or Path(os.environ.get("DOCKER_CONFIG") or environment.home_folder() / ".docker") / "config.json"
    content = _read_config(path)
    entry = HUB_ENTRY if registry == HUB else registry
    helper = _read_mapping(content, "credHelpers", path).get(entry) or content.get("credsStore")
    if helper and (found := _ask_helper(helper, entry)):
        return found
    return _find_in_file(_read_mapping(content, "auths", path), entry, path)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RegistryError(
            f"{path}: expected the docker client's configuration, found: {error.strerror}",
            "make it readable, or name another folder in DOCKER_CONFIG",
        ) from None
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"{path}: expected JSON, found: {error}", "mend it, or docker logout and login") from None
    return content if isinstance(content, dict) else {}


def _read_mapping(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    """Return the entry of this name, empty if there is none."""
    found = content.get(name) or {}
    if not isinstance(found, dict):
        raise RegistryError(f"{path}: {name}: expected a mapping, found other JSON", "mend it, or docker login again")
    return found


def _ask_helper(helper: str, entry: str) -> Credentials | None:
    """Ask a credential helper: it reads the entry's name and prints JSON, or a message."""
    done = run_program([f"docker-credential-{helper}", "get"], stdin=entry, check=False, timeout=60)
    if done.returncode:
        if "not found" in done.stdout:
            return None
        # Not its output: nobody knows what a helper prints.
        raise RegistryError(
            f"docker-credential-{helper} get: exit code {done.returncode} for {entry}",
            f"run it by hand, or docker login {entry} again",
        )
    try:
        found = json.loads(done.stdout)
        return Credentials(found["Username"], found["Secret"], identity=found["Username"] == TOKEN_USER)
    except (ValueError, TypeError, LookupError, RecursionError):
        raise RegistryError(
            f"docker-credential-{helper} get: expected JSON with Username and Secret for {entry}, found something else",
            f"run it by hand, or docker login {entry} without it",
        ) from None


def _find_in_file(auths: Mapping[str, Any], entry: str, path: Path) -> Credentials | None:
    for name, value in auths.items():
        if not isinstance(value, dict) or entry not in (name, _strip_scheme(name)):
            continue
        if value.get("identitytoken"):
            return Credentials(TOKEN_USER, value["identitytoken"], identity=True)
        if value.get("auth"):
            return _decode_login(value["auth"], path, name)
    return None


def _strip_scheme(name: str) -> str:
    """Return the registry of an entry: older clients wrote `https://registry.example/v1/`."""
    return name.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _decode_login(auth: Any, path: Path, name: str) -> Credentials:
    try:
        user, _, secret = base64.b64decode(auth, validate=True).decode().partition(":")
    except (ValueError, TypeError):
        # binascii.Error and UnicodeDecodeError are ValueErrors.
        raise RegistryError(
            f"{path}: auths: {name}: expected base64 of USER:SECRET, found other text", f"docker login {name}"
        ) from None
    return Credentials(user, secret)
