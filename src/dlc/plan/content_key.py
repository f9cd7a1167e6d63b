"""The content key: a hash of everything in the repository that decides what is in an image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from dlc.core.checkout import Tree, below
from dlc.plan.contexts import Repo, TargetRef, identity
from dlc.plan.targets import Target


def content_key(target: Target, dockerfile: str, keys: Mapping[str, str], tree: Tree) -> str:
    """sha256 in hex over the Dockerfile's text and stage, contexts, arguments, labels and platform of a target.

    A `Repo` context counts with every file below it, a `TargetRef` with that target's key (`keys`: id -> key), an
    `Image` with its digest, where it has one. What a `Host` context holds is pinned by locks that are themselves in a
    `Repo` context, or by its version. Revision, dates and paths of the host are no part of it.
    """
    contexts = {".": target.context, **target.contexts}
    files = {
        name: {path: (hashlib.sha256(file.data).hexdigest(), file.executable)
               for path, file in below(tree, context.folder).items()}
        for name, context in contexts.items() if isinstance(context, Repo)
    }  # fmt: skip
    material = {
        "dockerfile": dockerfile,
        "stage": target.stage,
        "platform": target.platform,
        "contexts": {
            name: keys[context.id] if isinstance(context, TargetRef) else identity(context)
            for name, context in contexts.items()
        },
        "files": files,
        "args": dict(target.args),
        "labels": dict(target.labels),
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()
