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

from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Manifest, Repository
from harness.registry import PASSWORD, USER

INSPECTED = "Name: far\nDriver: {driver}\n\nNodes:\nName: far0\nStatus: running\nPlatforms: {platforms}\n"
DOWN = "Name: down\nDriver: remote\n\nNodes:\nName: down0\nEndpoint: tcp://192.0.2.1:1234\nStatus: inactive\n"
NO_IMAGE = "sha256:" + "1" * 64
REFUSED = """\
Your build is requesting privileges for following possibly insecure capabilities:

 - Read access to path {path}

ERROR: additional privileges requested"""
GONE = "ERROR: listing workers for Build: failed to list workers: Unavailable: connection error: gone"


def main() -> int:
    """Answer `buildx inspect` and `buildx bake`; each call is a line of the file CALLS, each bake file one of BAKED."""
    words = sys.argv[1:]
    with open(os.environ["CALLS"], "a") as calls:
        print(*words, file=calls)
    if words[:2] == ["buildx", "inspect"]:
        if words[-1] == "down" and "--bootstrap" not in words:
            print(DOWN)
            return 0
        if words[-1] != "far":
            missing = f'no builder "{words[-1]}" found'
            print(f"ERROR: {'context deadline exceeded' if words[-1] == 'down' else missing}", file=sys.stderr)
            return 1
        print(INSPECTED.format(driver=os.environ.get("DRIVER", "remote"), platforms=os.environ["PLATFORMS"]))
        return 0
    assert words[:2] == ["buildx", "bake"], words
    content = json.load(sys.stdin)
    if os.environ.get("BUILDX_BAKE_ENTITLEMENTS_FS") != "0" and (outside := read_outside(content)):
        print(REFUSED.format(path=outside[0]))
        return 1
    return bake(content, Path(words[words.index("--metadata-file") + 1]))


def read_outside(content: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Return the folders outside the working directory, which buildx 0.20 and newer do not read by themselves."""
    named = [
        path for target in content["target"].values() for path in (target["context"], *target["contexts"].values())
    ]
    return [path for path in named if path.startswith("/") and not Path(path).is_relative_to(Path.cwd())]


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
