"""Pushes a built image: blobs, then the manifest by its digest, then a look at what is served, and last the tags."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dlc import oci_layout
from dlc.cache import cache_folder
from dlc.engine.connection import Engine
from dlc.errors import EngineError, ImageError, RegistryError
from dlc.plan import Plan
from dlc.registry.repository import Manifest, Repository, digest_of
from dlc.tags import tags

Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """One image to push: what `docker image inspect` says of it, and where it goes below the destination's path."""

    id: str
    ref: str
    framework: str
    tags: tuple[str, ...]
    inspected: Mapping[str, Any]

    @property
    def created(self) -> int:
        """Seconds since 1970."""
        return int(datetime.fromisoformat(self.inspected["Created"]).timestamp())


@dataclass(frozen=True)
class Pushed:
    """An image in a registry. `uploaded` bytes went over the wire; 0 where all of it was there before."""

    id: str
    repository: str
    digest: str  # of the manifest in the registry
    tags: tuple[str, ...]
    uploaded: int
    seconds: float


def orders(plan: Plan, inspected: Mapping[str, Mapping[str, Any]], keys: Mapping[str, str]) -> tuple[Order, ...]:
    """What to push, given what the engine has under each reference: its `inspect` and its content key. Pure.

    Raises ImageError for every image that is not there or was built from other sources.
    """
    stale = [d for d in plan.decisions(keys) if d.build and d.id in plan.selected]
    if stale:
        raise ImageError(
            "\n".join(f"{d.id}: expected an image built from these sources, found: {d.why}" for d in stale),
            f"dlc build {' '.join(d.id for d in stale)}",
        )
    found = []
    for target in (plan.target(identifier) for identifier in plan.selected):
        ref = target.tags[0]
        labels = inspected[ref]["Config"]["Labels"]
        found.append(Order(target.id, ref, labels["org.dlc.framework"], tags(ref, labels), inspected[ref]))
    return tuple(found)


def push(order: Order, repository: Repository, engine: Engine, compression: str, say: Say) -> Pushed:
    """Push one image; a tag is only moved to what the registry was seen to serve. Raises RegistryError and others."""
    start = time.monotonic()
    _require_containerd(engine)
    uploaded = 0
    digest = _there_already(order, repository, compression)
    if digest is None:
        with tempfile.TemporaryDirectory(prefix="dlc-push-") as folder:
            log = cache_folder() / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-push.log"
            layout = oci_layout.export(engine, order.ref, order.created, compression, Path(folder), log)
            _require_same(order, f"{order.ref} as exported", layout.manifest, layout.config())
            uploaded = _upload(layout, repository, say)
        digest = layout.manifest.digest
    manifest = verify(order, repository, digest)
    for tag in order.tags:
        _move(repository, tag, manifest)
    return Pushed(order.id, repository.name, digest, order.tags, uploaded, time.monotonic() - start)


def _require_containerd(engine: Engine) -> None:
    if not engine.containerd_store:
        raise EngineError(
            f"{engine.host or 'the engine'}: expected the containerd image store, found the classic one",
            'set {"features": {"containerd-snapshotter": true}} in its daemon.json, or use `dlc engine start`',
        )


def _there_already(order: Order, repository: Repository, compression: str) -> str | None:
    """Digest of this very image under one of its tags, compressed as asked for."""
    for tag in order.tags:
        manifest = repository.manifest(tag)
        if manifest is None:
            continue
        content = manifest.content
        if not all(layer["mediaType"].endswith(compression) for layer in content["layers"]):
            continue
        if not difference(order.inspected, json.loads(repository.blob(content["config"]["digest"]))):
            return manifest.digest
    return None


def _upload(layout: oci_layout.Layout, repository: Repository, say: Say) -> int:
    """Send the blobs that the repository lacks, then the manifest by its digest; bytes sent."""
    sent = 0
    for digest, path in layout.blobs():
        size = path.stat().st_size
        if repository.size(digest) == size:
            continue
        start = time.monotonic()
        repository.upload(path, digest)
        say(f"{time.monotonic() - start:.1f} s  {size / 1e6:.1f} MB  {digest}")
        sent += size
    repository.put_manifest(layout.manifest.digest, layout.manifest)
    return sent


def verify(order: Order, repository: Repository, digest: str) -> Manifest:
    """The manifest that the repository serves under `digest`, after all of it was found to be the built image.

    Raises RegistryError for other bytes, another configuration, and layers that are missing or of another length.
    """
    manifest = repository.manifest(digest)
    if manifest is None or manifest.digest != digest:
        raise _mismatch(f"{repository.name}@{digest}", digest, manifest.digest if manifest else "no manifest")
    content = manifest.content
    config = repository.blob(content["config"]["digest"])
    if digest_of(config) != content["config"]["digest"]:
        raise _mismatch(f"{repository.name}: configuration", content["config"]["digest"], digest_of(config))
    _require_same(order, f"{repository.name}@{digest}", manifest, config)
    for layer in content["layers"]:
        size = repository.size(layer["digest"])
        if size != layer["size"]:
            raise _mismatch(f"{repository.name}: layer {layer['digest']}", f"{layer['size']} bytes", f"{size}")
    return manifest


def _require_same(order: Order, where: str, manifest: Manifest, config: bytes) -> None:
    content = json.loads(config)
    layers = len(manifest.content["layers"])
    what = difference(order.inspected, content)
    if layers != len(content["rootfs"]["diff_ids"]):
        what = f"{layers} layers for {len(content['rootfs']['diff_ids'])} diff ids"
    if what:
        raise RegistryError(
            f"{where}: expected the built image {order.ref}, found another: {what}",
            f"no tag was moved; dlc build {order.id} and push again",
        )


def difference(inspected: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """In what a configuration is not that of the image that `docker image inspect` describes; empty if in nothing.

    The diff ids are the digests of the uncompressed layers: equal lists, equal content whatever the compression.
    """
    if config["rootfs"]["diff_ids"] != inspected["RootFS"]["Layers"]:
        return "its layers (diff ids)"
    if config.get("created") != inspected["Created"]:
        return f"created {config.get('created')}, not {inspected['Created']}"
    built, found = inspected["Config"], config.get("config", {})
    for name in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User", "Labels"):
        if (built.get(name) or None) != (found.get(name) or None):
            return f"its {name}"
    return ""


def _move(repository: Repository, tag: str, manifest: Manifest) -> None:
    """Make a tag mean the manifest, and see that it does."""
    served = repository.manifest(tag)
    if served is None or served.digest != manifest.digest:
        repository.put_manifest(tag, manifest)
        served = repository.manifest(tag)
    if served is None or served.digest != manifest.digest:
        raise _mismatch(f"{repository.name}:{tag}", manifest.digest, served.digest if served else "no manifest")


def _mismatch(where: str, expected: str, found: str) -> RegistryError:
    return RegistryError(
        f"{where}: expected {expected}, found {found}", "the registry lost or changed what was pushed: see its storage"
    )


def refs_of(plan: Plan) -> Sequence[str]:
    """Reference of each selected image."""
    return [plan.target(identifier).tags[0] for identifier in plan.selected]
