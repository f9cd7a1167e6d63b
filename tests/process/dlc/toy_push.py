"""What a push needs, without an engine: a docker client that has an image, toy:1, and a registry that keeps all."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from pathlib import Path

from scripted_server import Asked, Reply

LAYER = random.Random(35).randbytes(1 << 20) * 8
# A docker client that has one image: `toy.json` is what it says of it, `toy.tar` the image itself.
DOCKER = """#!/bin/sh
folder=$(dirname "$0")
case "$1" in
    image) cat "$folder/toy.json" ;;
    save) sleep 0.1; cat "$folder/toy.tar" >"$3" ;;
    buildx) for step in 1 2 3; do echo "#$step [one] COPY"; sleep 0.1; echo "#$step DONE 0.1s"; done ;;
esac
"""


class Registry:
    """One that keeps manifests and blobs under their digests."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}

    def __call__(self, asked: Asked) -> Reply:
        path, _, query = asked.path.partition("?")
        name = query.partition("digest=")[2].replace("%3A", ":") or path.rpartition("/")[2]
        if asked.method == "POST":
            return Reply(202, {"Location": "/v2/toy/blobs/uploads/1"})
        if asked.method == "PUT":
            kept = (asked.headers.get("Content-Type", ""), asked.body)
            self.kept[name] = self.kept[f"sha256:{hashlib.sha256(asked.body).hexdigest()}"] = kept
            return Reply(201)
        if name not in self.kept:
            return Reply(404)
        kind, body = self.kept[name]
        return Reply(200, {"Content-Type": kind, "Content-Length": str(len(body))}, body)


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size = len(data)
    archive.addfile(item, io.BytesIO(data))


def docker_client(folder: Path) -> None:
    """Make the folder of a docker client that has the image toy:1."""
    folder.mkdir()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        add(files, "data", LAYER)
    diff_ids = [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]
    created = "2026-11-27T00:00:00Z"
    config = {"created": created, "config": {}, "rootfs": {"diff_ids": diff_ids}}
    said = {"Created": created, "Config": {}, "RootFS": {"Layers": diff_ids}, "Size": len(LAYER)}
    (folder / "toy.json").write_text(json.dumps([said]))
    with tarfile.open(folder / "toy.tar", "w") as archive:
        add(archive, "config.json", json.dumps(config).encode())
        add(archive, "1/layer.tar", layer.getvalue())
        add(archive, "manifest.json", json.dumps([{"Config": "config.json", "Layers": ["1/layer.tar"]}]).encode())
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
