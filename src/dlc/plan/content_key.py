"""The content key: one hash of all that an image is built from and that the repository decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from dlc.core.checkout import Tree, below
from dlc.plan import contexts as pinned


def content_key(
    dockerfile: str, contexts: Mapping[str, str], args: Mapping[str, str], labels: Mapping[str, str],
    parent: str, tree: Tree,
) -> str:  # fmt: skip
    """sha256 in hex over the Dockerfile's text, every file of each `repo:` context, arguments, labels, parent's key.

    `contexts` includes the main context under the name ".". What `host:` contexts hold is pinned by locks that are
    themselves in a `repo:` context, `pinned:` ones by their hash. Revision, dates and the host's paths are no part of
    it: they change no content.
    """
    files = {
        name: {path: (hashlib.sha256(file.data).hexdigest(), file.executable) for path, file in below(tree, folder)
               .items()}
        for name, value in contexts.items() for kind, _, folder in [value.partition(":")] if kind == "repo"
    }  # fmt: skip
    material = {
        "dockerfile": dockerfile,
        "contexts": {name: pinned.without_origin(value) for name, value in contexts.items()},
        "files": files,
        "args": dict(args),
        "labels": dict(labels),
        "parent": parent,
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()
