"""A stand-in for a Kubernetes API server with Kubeflow Trainer: it keeps objects, and starts nothing.

    with serving_api(objects, folder, find_mistakes) as api:
        client(env={"KUBECONFIG": str(api.config)})
        api.find("TrainJob", "digits")

It answers what clients send over HTTP (get, list, create, delete) for the kinds of a job, and refuses an object of
which `check` names mistakes (`cluster_rules`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
NAMESPACE = "ml"
CREATED = "2026-11-28T12:00:00Z"
# The last words of paths. The cluster has no runtimes of its own.
KINDS = {
    "trainjobs": "TrainJob", "trainingruntimes": "TrainingRuntime", "clustertrainingruntimes": "ClusterTrainingRuntime",
    "configmaps": "ConfigMap", "secrets": "Secret", "pods": "Pod",
}  # fmt: skip


@dataclass
class Api:
    """The objects, by kind and name, and every request that failed."""

    config: Path
    check: Callable[[Sequence[Object]], list[str]]
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def add(self, found: Object) -> Object:
        """Keep an object, with what a server adds."""
        metadata = {**found["metadata"], "namespace": NAMESPACE, "uid": "0c7b1de0", "creationTimestamp": CREATED}
        kept = {**found, "metadata": metadata}
        self.objects[found["kind"], metadata["name"]] = kept
        return kept

    def find(self, kind: str, name: str) -> Object:
        """Return an object as its client sent it."""
        kept = self.objects[kind, name]
        added = ("namespace", "uid", "creationTimestamp")
        return {**kept, "metadata": {key: item for key, item in kept["metadata"].items() if key not in added}}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Object]:
        """Return a status and an object."""
        words = path.partition("?")[0].strip("/").split("/")
        kind, name = (KINDS.get(words[-1], ""), "") if words[-1] in KINDS else (KINDS.get(words[-2], ""), words[-1])
        if method == "POST":
            return self._create(json.loads(body))
        if not name:
            items = [found for (of, _), found in self.objects.items() if of == kind]
            # A core list without `metadata` is none.
            return 200, {"apiVersion": "v1", "kind": f"{kind}List", "metadata": {}, "items": items}
        if (kind, name) not in self.objects:
            return self._refuse(404, f"{words[-2]} {name} not found")
        found = self.objects[kind, name]
        if method == "DELETE":
            del self.objects[kind, name]
        return 200, found

    def _create(self, found: Object) -> tuple[int, Object]:
        if found["kind"] == "TrainJob":
            # The default of its definition.
            found["spec"]["runtimeRef"].setdefault("apiGroup", "trainer.kubeflow.org")
        others = [each for (kind, _), each in self.objects.items() if kind not in ("TrainJob", "Pod")]
        mistakes = self.check([*others, found])
        if mistakes:
            return self._refuse(422, "; ".join(mistakes))
        if (found["kind"], found["metadata"]["name"]) in self.objects:
            return self._refuse(409, f"{found['metadata']['name']} already exists")
        return 201, self.add(found)

    def _refuse(self, status: int, why: str) -> tuple[int, Object]:
        self.refused.append(why)
        return status, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": why, "code": status}


@contextmanager
def serving_api(
    objects: Sequence[Object], folder: Path, check: Callable[[Sequence[Object]], list[str]]
) -> Iterator[Api]:
    """Run the server until the end of the block, with these objects. `folder` gets the kubeconfig."""

    class Handler(BaseHTTPRequestHandler):
        def answer_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = api.answer(self.command, self.path, body)
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = answer_any  # noqa: N815 (http.server's names)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api = Api(folder / "kubeconfig", check)
    api.config.write_text(_make_config(f"http://127.0.0.1:{server.server_address[1]}"))
    for each in objects:
        api.add(each)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_config(url: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stand-in",
        "clusters": [{"name": "stand-in", "cluster": {"server": url}}],
        "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "me", "namespace": NAMESPACE}}],
        "users": [{"name": "me", "user": {"token": "of this test"}}],
    }
    return yaml.safe_dump(config)
