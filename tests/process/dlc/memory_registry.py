"""A registry in memory, with or without the referrers API of OCI 1.1, for the repository team/pytorch."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

from scripted_server import Asked, Reply

from dlc.registry.client.repository import INDEX, KINDS


class Memory:
    """A registry that keeps what it is sent; with or without the referrers API of OCI 1.1."""

    def __init__(self, *, lists: bool, page: int = 100) -> None:
        """With `page` descriptors at most in one answer of the referrers API."""
        self.lists = lists
        self.page = page
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}

    def __call__(self, asked: Asked) -> Reply:
        parts = urlsplit(asked.path)
        kind, name = parts.path.removeprefix("/v2/team/pytorch/").split("/", 1)
        if kind == "referrers":
            return self._listed(name, parse_qs(parts.query)) if self.lists else Reply(404)
        if kind == "blobs":
            return self._blob(asked, name, parse_qs(parts.query))
        if asked.method == "PUT":
            self.manifests[name] = (asked.headers["Content-Type"], asked.body)
            subject = json.loads(asked.body).get("subject")
            return Reply(201, {"OCI-Subject": subject["digest"]} if subject and self.lists else {})
        media, data = self.manifests.get(name, ("", b""))
        return Reply(200, {"Content-Type": media}, data) if media else Reply(404)

    def _blob(self, asked: Asked, name: str, query: dict[str, list[str]]) -> Reply:
        if asked.method == "POST":
            return Reply(202, {"Location": "/v2/team/pytorch/blobs/uploads/one"})
        if asked.method == "PUT":
            self.blobs[query["digest"][0]] = asked.body
            return Reply(201)
        return Reply(200, {}, self.blobs[name]) if name in self.blobs else Reply(404)

    def _listed(self, digest: str, query: dict[str, list[str]]) -> Reply:
        known = {name: json.loads(data) for name, (_, data) in self.manifests.items()}
        found = [
            {"mediaType": KINDS[0], "digest": name, "size": 1, "artifactType": content["artifactType"]}
            for name, content in known.items() if content.get("subject", {}).get("digest") == digest
        ]  # fmt: skip
        start = int(query.get("last", ["0"])[0])
        end = start + self.page
        link = {"Link": f'</v2/team/pytorch/referrers/{digest}?last={end}>; rel="next"'} if end < len(found) else {}
        body = json.dumps({"manifests": found[start:end]}).encode()
        return Reply(200, {"Content-Type": INDEX, **link}, body)
