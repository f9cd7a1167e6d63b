"""Makes the bake file of an exported folder, which takes proxies and package indexes from variables. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dlc.core.environment import INDEX_VARIABLES, PROXY_NAMES
from dlc.image_build.bake_file import bake_name
from dlc.plan.targets import Target

EPOCH = "SOURCE_DATE_EPOCH"
PROXIES = (*PROXY_NAMES, *(name.lower() for name in PROXY_NAMES))
NETRC = "NETRC"
# In the folder; bake looks for this name.
BAKE_FILE = "docker-bake.json"


def render_bake(image: Target, stage: str, epoch: int) -> str:
    """Return the bake file as JSON: one target, which is `stage` of the folder's Dockerfile.

    It holds names of variables, and no value of this host: bake reads the values where it runs. What is not set there
    is no argument and no secret. `epoch` is the time of the sources.
    """
    name = bake_name(image.id)
    indexes = [word for words in INDEX_VARIABLES.values() for word in words]
    secrets = [_choose_secret(identifier, words) for identifier, words in INDEX_VARIABLES.items()]
    secrets.append(f'{NETRC} != "" ? ["id=netrc,src=${{{NETRC}}}"] : []')
    document = {
        "variable": {EPOCH: {"default": str(epoch)}, **{word: {"default": ""} for word in (*PROXIES, *indexes, NETRC)}},
        "group": {"default": {"targets": [name]}},
        "target": {
            name: {
                "context": ".",
                "dockerfile": "Dockerfile",
                "target": stage,
                "platforms": [image.platform],
                "tags": list(image.tags),
                "args": {EPOCH: f"${{{EPOCH}}}", **{word: f'${{{word} != "" ? {word} : null}}' for word in PROXIES}},
                "secret": f"${{concat({', '.join(secrets)})}}",
            }
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _choose_secret(identifier: str, variables: Sequence[str]) -> str:
    """Return the expression for a list with the secret of the first variable that is set, as `dlc build` chooses it."""
    choices = [f'{name} != "" ? ["id={identifier},env={name}"] : ' for name in variables]
    return "".join(choices) + "[]"
