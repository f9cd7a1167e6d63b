"""A docker client whose builder pushes what it is told, as BuildKit does, but builds nothing; or does harm instead."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from hand_made_image import put_labelled

from dlc.images.push.registry.credentials import Credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import Manifest, Repository
from harness.registry import PASSWORD, USER

INSPECTED = "Name: far\nDriver: {driver}\n\nNodes:\nName: far0\nStatus: running\nPlatforms: {platforms}\n"
NO_IMAGE = "sha256:" + "1" * 64
GONE = "ERROR: listing workers for Build: failed to list workers: Unavailable: connection error: gone"


def main() -> int:
    """Answer `buildx inspect` and `buildx bake`; each call is a line of the file CALLS, each bake file one of BAKED."""
    words = sys.argv[1:]
    with open(os.environ["CALLS"], "a") as calls:
        print(*words, file=calls)
    if words[:2] == ["buildx", "inspect"]:
        if words[-1] != "far":
            print(f'ERROR: no builder "{words[-1]}" found', file=sys.stderr)
            return 1
        print(INSPECTED.format(driver=os.environ.get("DRIVER", "remote"), platforms=os.environ["PLATFORMS"]))
        return 0
    assert words[:2] == ["buildx", "bake"], words
    return bake(json.load(sys.stdin), Path(words[words.index("--metadata-file") + 1]))


def bake(content: dict[str, dict[str, dict[str, Any]]], metadata: Path) -> int:
    """Push an image for each target with an output."""
    with open(os.environ["BAKED"], "a") as baked:
        print(json.dumps(content), file=baked)
    harm, digests = os.environ.get("HARM", ""), {}
    for name, target in content["target"].items():
        if "output" not in target:
            continue
        if harm == "dies" and digests:
            print(GONE)
            return 1
        image = push(name, target, other_key=harm == "another image")
        digests[name] = {"containerimage.digest": NO_IMAGE if harm == "another digest" else image.digest}
    metadata.write_text(json.dumps(digests))
    return 0


def push(name: str, target: dict[str, Any], *, other_key: bool) -> Manifest:
    """Push the image of one target to where its output says."""
    [output] = target["output"]
    place = dict(part.partition("=")[::2] for part in output.split(","))["name"]
    host, _, path = place.partition("/")
    path, _, tag = path.partition(":")
    repository = Repository(Session(f"http://{host}", path, Credentials(USER, PASSWORD)), path)
    labels = {**target["labels"], **({"org.dlc.content-key": "0" * 64} if other_key else {})}
    with tempfile.TemporaryDirectory() as folder:
        image = put_labelled(repository, Path(folder), labels, random.Random(name).getrandbits(16))
    if tag:
        repository.put_manifest(tag, image)
    return image


if __name__ == "__main__":
    sys.exit(main())
