"""Manifests, tags and blobs of one repository; a request that failed for a passing reason is sent again."""

from __future__ import annotations

import hashlib
import json
import re
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dlc.core.errors import RegistryError
from dlc.registry.client.credentials import DIGEST as SHA256
from dlc.registry.client.credentials import TAG
from dlc.registry.client.http import NO_REGISTRY, Answer, Session, TransientError, UnreadableError

KINDS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# Images of several platforms.
INDEXES = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
# Images of 2014's format, which no engine of today reads.
OLD_KINDS = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
# A registry that restarts is back within a minute.
DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# A registry may ask for so many; more is for the user to decide.
LONGEST_DELAY_SECONDS = 300.0

# How a registry names the next page of a list.
NEXT_PAGE = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
MOST_PAGES = 1000
# A download is asked for in pieces: one that fails costs no more than itself.
PIECE_BYTES = 4 << 20
TAGS_AT_ONCE = 1000
# A digest as the image specification writes it. It becomes a part of addresses.
DIGEST = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[A-Za-z0-9=_-]+")
# How media types begin that are of no page of a proxy.
OF_VENDORS = "application/vnd."
DAMAGED = "the registry's copy is damaged: push the image again, or ask who runs the registry"
MAY_DELETE = (
    "allow deletion in the registry (docker-registry: REGISTRY_STORAGE_DELETE_ENABLED=true), or let its own policy "
    "remove images (ECR: lifecycle policies)"
)

Descriptor = Mapping[str, Any]
T = TypeVar("T")


class DamagedError(RegistryError):
    """A registry has not the bytes of a blob that it names."""

    def __init__(self, message: str) -> None:
        super().__init__(message, DAMAGED)


def absent(digest: str) -> tuple[int, ...]:
    """Return the statuses by which a registry says that it has no such content.

    It may refuse to look for digests that it does not compute, which a document that anybody attached may name.
    """
    return (404,) if SHA256.fullmatch(digest) else (400, 404)


@dataclass(frozen=True)
class Manifest:
    """A manifest as bytes. Its digest is computed from them, never taken from the registry."""

    data: bytes
    # The media type.
    kind: str

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Manifest:
        """Return the manifest with this content, which names its own media type."""
        return cls(json.dumps(content, separators=(",", ":")).encode(), content["mediaType"])

    @property
    def digest(self) -> str:
        """Return `sha256:...` of the bytes."""
        return make_digest(self.data)

    @property
    def content(self) -> Mapping[str, Any]:
        """Parse the bytes."""
        found: dict[str, Any] = json.loads(self.data)
        return found


class Repository:
    """One repository. All methods raise RegistryError; `say` gets a line for every request that is sent again."""

    def __init__(
        self,
        session: Session,
        name: str,
        say: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
        beside: Sequence[tuple[str, Session]] = (),
    ):
        """Take `beside`, other repositories of this registry that may have the same layers.

        Each has a session that may read it and write to this one.
        """
        self.name = name
        self._beside = beside
        self._session = session
        self._say = say
        self._sleep = sleep
        # By digest, until something is written.
        self._read: dict[str, Manifest] = {}

    def manifest(self, reference: str) -> Manifest | None:
        """Return the manifest of an image under a tag or a digest, None if there is none."""
        found = self.any_manifest(reference)
        return found if found and found.kind in KINDS else None

    def any_manifest(self, reference: str) -> Manifest | None:
        """Return what a tag or a digest means: an image, a document about one, or an index; None if there is none.

        What was read by its digest is not asked for twice. Raises UnreadableError for what somebody has pushed that is
        neither.
        """
        if known := self._read.get(reference):
            return known
        found = self._ask_manifest(reference)
        if found and found.digest == reference:
            self._read[reference] = found
        return found

    def _ask_manifest(self, reference: str) -> Manifest | None:
        headers = {"Accept": ", ".join((*KINDS, *INDEXES))}
        path = self._path("manifests", reference)
        accept = (200, *absent(reference)) if ":" in reference else (200, 404)
        # docker-registry fails if it is asked for a layer as a manifest.
        also = (500,) if ":" in reference else ()
        answer = self._retry(lambda: self._session.send("GET", path, headers=headers, accept=(*accept, *also)))
        if answer.status == 500:
            if self.size(reference) is not None:
                raise UnreadableError(f"{answer.where}: it is a blob, and no manifest", NO_REGISTRY)
            answer = self._retry(lambda: self._session.send("GET", path, headers=headers, accept=accept))
        kind = answer.headers.get_content_type()
        if answer.status != 200 or kind in OLD_KINDS:
            return None
        if kind not in (*KINDS, *INDEXES):
            if kind.startswith(OF_VENDORS):
                raise UnreadableError(f"{answer.where}: it is a {kind}", NO_REGISTRY, answer.body)
            raise RegistryError(f"{answer.where}: expected a manifest or an index, found {kind}", NO_REGISTRY)
        content = answer.json("a manifest")
        if not (_is_index(content) if kind in INDEXES else _is_image(content)):
            text = f"{answer.where}: expected a manifest or an index, found other JSON"
            raise UnreadableError(text, NO_REGISTRY, answer.body)
        return Manifest(answer.body, kind)

    def tags(self) -> list[str]:
        """Return all tags, of documents too; none if there is no such repository."""
        found: list[str] = []
        for answer in self._pages(f"/v2/{self.name}/tags/list?n={TAGS_AT_ONCE}", (200, 404)):
            listed = answer.json("a list of tags").get("tags") if answer.status == 200 else None
            found += [tag for tag in listed if _is_tag(tag)] if isinstance(listed, list) else []
        return list(dict.fromkeys(found))

    def read_day(self) -> date | None:
        """Return the day by the registry's clock, None if its answers have no date."""
        path = f"/v2/{self.name}/tags/list?n=1"
        answer = self._retry(lambda: self._session.send("GET", path, accept=(200, 404)))
        with suppress(ValueError, TypeError):
            return parsedate_to_datetime(answer.headers.get("Date", "")).astimezone(UTC).date()
        return None

    def delete(self, reference: str) -> None:
        """Remove a manifest with all its tags by its digest, or a tag. What is gone already is no error."""
        self._read.clear()
        path = self._path("manifests", reference)
        answer = self._retry(lambda: self._session.send("DELETE", path, accept=(200, 202, 204, 404, 405)))
        if answer.status == 405:
            raise RegistryError(f"{answer.where}: the registry allows no deletion (status 405)", MAY_DELETE)

    def put_manifest(self, reference: str, manifest: Manifest) -> bool:
        """Store a manifest under its digest or a tag. Return whether the registry lists it with its subject itself."""
        self._read.clear()
        headers = {"Content-Type": manifest.kind}
        path = self._path("manifests", reference)
        send = self._session.send
        answer = self._retry(lambda: send("PUT", path, body=manifest.data, headers=headers, accept=(201, 202)))
        return bool(answer.headers.get("OCI-Subject"))

    def referrers(self, digest: str) -> list[Descriptor]:
        """Return descriptors of what refers to a manifest.

        The registry lists them, else the index under the tag does.
        """
        listed = self._index(self._path("referrers", digest))
        if listed is not None:
            return listed
        return self._index(self._path("manifests", make_fallback_tag(digest))) or []

    def _index(self, path: str) -> list[Descriptor] | None:
        """Return the descriptors in an index, of all its pages; None if there is no index."""
        found: list[Descriptor] = []
        for answer in self._pages(path, (200, 400, 404, 405), {"Accept": INDEX}):
            if answer.status != 200 or answer.headers.get_content_type() != INDEX:
                return None
            listed = answer.json("an index").get("manifests")
            found += [entry for entry in listed if _is_descriptor(entry)] if isinstance(listed, list) else []
        return found

    def _pages(self, path: str, accept: tuple[int, ...], headers: Mapping[str, str] | None = None) -> Iterator[Answer]:
        """Yield the pages of a list: each but the last names the next one."""
        read: set[str] = set()
        while len(read) < MOST_PAGES:
            answer = self._retry(partial(self._session.send, "GET", path, headers=headers, accept=accept))
            yield answer
            read.add(path)
            link = NEXT_PAGE.search(answer.headers.get("Link", ""))
            # The last page may lead back to one that was read.
            if link is None or link[1] in read:
                return
            path = link[1]
        raise RegistryError(f"{self.name}: expected a list of at most {MOST_PAGES} pages, found more", NO_REGISTRY)

    def blob(self, digest: str) -> bytes | None:
        """Return a small blob, such as a configuration, as the registry serves it: not checked against its digest."""
        answer = self._retry(
            lambda: self._session.send("GET", self._path("blobs", digest), accept=(200, *absent(digest)))
        )
        return answer.body if answer.status == 200 else None

    def download(self, digest: str, size: int, path: Path) -> None:
        """Write a blob of so many bytes to a file. Raises DamagedError if the registry serves other bytes, or none."""
        hashed = hashlib.sha256()
        with path.open("wb") as file:
            while (written := file.tell()) < size:
                piece = self._read_piece(digest, written, min(written + PIECE_BYTES, size))
                hashed.update(piece)
                file.write(piece)
        if (found := f"sha256:{hashed.hexdigest()}") != digest:
            raise DamagedError(f"{self.name}: expected the blob {digest}, found {found}")

    def _read_piece(self, digest: str, start: int, end: int) -> bytes:
        """Return the bytes of a blob from `start` to `end`, of which the last is not part of it."""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        path = self._path("blobs", digest)
        accept = (200, 206, *absent(digest), 416)
        answer = self._retry(lambda: self._session.send("GET", path, headers=headers, accept=accept))
        if answer.status not in (200, 206):
            raise DamagedError(f"{answer.where}: expected {end - start} bytes, found none (status {answer.status})")
        # A registry may send the whole blob.
        piece = answer.body[start:end] if answer.status == 200 else answer.body
        if len(piece) != end - start:
            raise DamagedError(f"{answer.where}: expected {end - start} bytes, found {len(piece)}")
        return piece

    def size(self, digest: str) -> int | None:
        """Return the bytes of a blob that the repository has, else None."""
        answer = self._retry(
            lambda: self._session.send("HEAD", self._path("blobs", digest), accept=(200, *absent(digest)))
        )
        length = answer.headers.get("Content-Length", "")
        return (int(length) if length.isdecimal() else -1) if answer.status == 200 else None

    def require_writable(self) -> None:
        """Open an upload and cancel it, so that a missing permission is found before the image is exported."""
        location = self._retry(self._open_upload)
        # A registry forgets it in time.
        with suppress(RegistryError):
            self._session.send("DELETE", location, accept=(200, 202, 204))

    def upload(self, path: Path, digest: str) -> None:
        """Store a file as a blob. A failed try starts again from the beginning."""
        self._retry(lambda: self._upload(path, digest))

    def mount(self, digest: str) -> bool:
        """Tell whether the registry took a blob from a repository beside this one, so that nothing has to be sent.

        It need not: it may not let us read there, there may be no such repository, or it may not know the request.
        """
        for name, session in self._beside:
            query = urllib.parse.urlencode({"mount": digest, "from": name})
            with suppress(RegistryError):
                answer = session.send("POST", self._path("blobs", f"uploads/?{query}"), body=b"", accept=(201, 202))
                if answer.status == 201 and self.size(digest) is not None:
                    return True
        return False

    def _upload(self, path: Path, digest: str) -> None:
        location = self._open_upload()
        joint = "&" if "?" in location else "?"
        url = f"{location}{joint}{urllib.parse.urlencode({'digest': digest})}"
        self._session.send("PUT", url, body=path, accept=(201, 202, 204))

    def _open_upload(self) -> str:
        """Return the address where the registry wants the blob."""
        opened = self._session.send("POST", self._path("blobs", "uploads/"), body=b"", accept=(202,))
        location = opened.headers.get("Location")
        if not location:
            raise RegistryError(f"{opened.where}: expected a Location for the upload, found none", NO_REGISTRY)
        return location

    def _path(self, kind: str, reference: str) -> str:
        return f"/v2/{self.name}/{kind}/{reference}"

    def _retry(self, operation: Callable[[], T]) -> T:
        failed: Counter[type[TransientError]] = Counter()
        for delay in DELAYS_SECONDS:
            try:
                return operation()
            except TransientError as error:
                failed[type(error)] += 1
                if failed[type(error)] == error.tries:
                    raise
                seconds = max(delay, error.after)
                if seconds > LONGEST_DELAY_SECONDS:
                    raise RegistryError(
                        f"{error.message}; it asks to wait {seconds:.0f} s", f"push again in {seconds:.0f} s"
                    ) from None
                self._say(f"{error.message}; again in {seconds:g} s")
                self._sleep(seconds)
        return operation()


def make_digest(data: bytes) -> str:
    """Return `sha256:...`, as registries name content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_manifest(config: Descriptor, layers: Sequence[Descriptor]) -> Manifest:
    """Make the manifest of an image, with its keys in the order that BuildKit gives them."""
    return Manifest.of({"schemaVersion": 2, "mediaType": KINDS[0], "config": config, "layers": list(layers)})


def describe_blob(kind: str, data: bytes) -> Descriptor:
    """Return the descriptor of some bytes of this media type."""
    return {"mediaType": kind, "digest": make_digest(data), "size": len(data)}


def make_fallback_tag(digest: str) -> str:
    """Return the tag with the index of an image's referrers, for a registry that does not list them."""
    return digest.replace(":", "-")


def _is_tag(found: object) -> bool:
    """Tell whether something is a tag by the distribution specification: it becomes a part of addresses."""
    return isinstance(found, str) and bool(TAG.fullmatch(found))


def _is_image(content: Mapping[str, Any]) -> bool:
    """Tell whether a manifest says all that is read of it: of the configuration and of each layer what they are."""
    config, layers = content.get("config"), content.get("layers")
    return _is_descriptor(config) and isinstance(layers, list) and all(map(_is_descriptor, layers))


def _is_index(content: Mapping[str, Any]) -> bool:
    """Tell whether an index says of each manifest what it is."""
    listed = content.get("manifests")
    return isinstance(listed, list) and all(map(_is_descriptor, listed))


def _is_descriptor(found: object) -> bool:
    """Tell whether something is a descriptor: a media type, a digest, a size; a platform is a mapping."""
    if not (isinstance(found, dict) and isinstance(found.get("mediaType"), str)):
        return False
    digest, size = found.get("digest"), found.get("size")
    is_named = isinstance(digest, str) and bool(DIGEST.fullmatch(digest))
    return is_named and isinstance(size, int) and isinstance(found.get("platform") or {}, dict)
