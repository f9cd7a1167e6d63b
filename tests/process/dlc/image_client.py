"""A docker client that has one image of a tree and answers from files: what `dlc push` needs, without an engine."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

from toy_push import LAYER, add

from dlc.core.checkout import Tree
from dlc.core.labels import CREATED, KEY, REVISION
from dlc.plan.plan import make_plan
from harness.image_facts import HISTORY, LAUNCHER, PROBED
from harness.signed_image import COMMIT

DOCKER = """#!{python}
import json, pathlib, shutil, sys
folder = pathlib.Path(__file__).parent
words = sys.argv[1:]
said = json.loads((folder / "said.json").read_text())
if words[:2] == ["image", "inspect"]:
    print(said["keys"] if "--format" in words else json.dumps([said["inspected"]]))
elif words[0] == "history":
    print("\\n".join(said["history"]))
elif words[0] == "run":
    print(json.dumps(said["probed"]))
elif words[0] == "save":
    shutil.copy(folder / "image.tar", words[2])
else:
    sys.exit(f"unknown: {{words}}")
"""


def write_client(folder: Path, tree: Tree, identifier: str) -> str:
    """Make a docker client that has one image of the tree; returns the image's digest."""
    target = make_plan(tree, [identifier]).target(identifier)
    labels = {**target.labels, REVISION: COMMIT, CREATED: "2026-11-27T00:00:00+00:00"}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        add(files, "data", LAYER[: 1 << 16] + identifier.encode())
    diff_ids = [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]
    created = "2026-11-27T00:00:00Z"
    config = json.dumps({
        "created": created, "architecture": "amd64", "os": "linux", "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }).encode()  # fmt: skip
    image = f"sha256:{hashlib.sha256(config).hexdigest()}"
    inspected = {"Id": image, "Created": created, "Config": {"Labels": labels}, "RootFS": {"Layers": diff_ids},
                 "Size": len(LAYER)}  # fmt: skip
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "image.tar", "w") as archive:
        add(archive, "config.json", config)
        add(archive, "1/layer.tar", layer.getvalue())
        add(archive, "manifest.json", json.dumps([{"Config": "config.json", "Layers": ["1/layer.tar"]}]).encode())
    said = {"inspected": inspected, "keys": f"{target.tags[0]} |{labels[KEY]}", "history": HISTORY,
            "probed": {**PROBED, "dlc": [LAUNCHER]}}  # fmt: skip
    (folder / "said.json").write_text(json.dumps(said))
    (folder / "docker").write_text(DOCKER.format(python=sys.executable))
    (folder / "docker").chmod(0o755)
    return image
