"""The devcontainer.json of a project: an editor's container of the project's own image. Pure."""

from __future__ import annotations

import json
from typing import Any

from dlc.buildspec.variant import Variant

# In the project's folder.
FILE = ".devcontainer/devcontainer.json"
PYTHON = "/opt/venv/bin/python"
# DataLoader's workers pass batches through it; 64 MiB is Docker's own.
SHARED_MEMORY = "--shm-size=8g"


def describe_devcontainer(variant: Variant) -> dict[str, Any]:
    """Return what the file says, in the words of the Development Containers Specification."""
    value: dict[str, Any] = {
        "name": variant.id,
        # `dlc build` makes it: nothing is built, and no registry asked, when the container starts.
        "image": variant.ref,
        # An editor starts the image past its entry point, which reaps what ends.
        "init": True,
        "overrideCommand": True,
        "remoteUser": variant.settings.user.name if variant.settings.user else "root",
        # On Linux the editor gives a user of the image your own number; root has no other.
        "updateRemoteUserUID": variant.settings.user is not None,
        "runArgs": [SHARED_MEMORY],
        # A login shell reads /etc/profile, which sets another PATH.
        "remoteEnv": {"PATH": "/opt/venv/bin:${containerEnv:PATH}"},
        "customizations": {
            "vscode": {
                "extensions": ["ms-python.python"],
                "settings": {"python.defaultInterpreterPath": PYTHON},
            }
        },
    }
    if variant.settings.device != "cpu":
        value["hostRequirements"] = {"gpu": "optional"}
    return value


def write_devcontainer(variant: Variant) -> str:
    """Return the file's text."""
    return json.dumps(describe_devcontainer(variant), indent=2) + "\n"
