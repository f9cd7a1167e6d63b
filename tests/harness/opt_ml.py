"""Lays out a host's /opt/ml as the platform does: config files, code and channels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

INSTANCE_TYPE = "ml.c5.xlarge"
GROUP = "homogeneousCluster"  # the platform's name for the only group of a job


def lay_out(
    root: Path,
    script: Path,
    *,
    program: str = "",
    host: str = "algo-1",
    groups: Mapping[str, Sequence[str]] | None = None,
    hyperparameters: Mapping[str, object] | None = None,
    channels: Mapping[str, Path] | None = None,
) -> Path:
    """Make `root` a host's /opt/ml and return it.

    `script` is the entry point, a file or a folder (then `program` names the entry point in it). `groups` maps instance
    group names to their hosts. Hyperparameters are encoded as the SageMaker SDK 2.x does it: every value as JSON text.
    """
    config = root / "input" / "config"
    config.mkdir(parents=True)
    if script.is_dir():
        shutil.copytree(script, root / "code")
    else:
        (root / "code").mkdir()
        shutil.copy(script, root / "code" / script.name)
    for name, folder in (channels or {}).items():
        shutil.copytree(folder, root / "input" / "data" / name)
    sent = {"sagemaker_program": program or script.name, **(hyperparameters or {})}
    files = {
        "resourceconfig.json": resource_config(host, groups or {GROUP: [host]}),
        "hyperparameters.json": {name: json.dumps(value) for name, value in sent.items()},
        "inputdataconfig.json": {name: {"TrainingInputMode": "File"} for name in channels or {}},
    }
    for name, content in files.items():
        (config / name).write_text(json.dumps(content))
    return root


def resource_config(host: str, groups: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """What resourceconfig.json says on `host`, in the shape of a real job's file."""
    [group] = [name for name, members in groups.items() if host in members]
    return {
        "current_host": host,
        "current_instance_type": INSTANCE_TYPE,
        "current_group_name": group,
        "hosts": [member for members in groups.values() for member in members],
        "instance_groups": [
            {"instance_group_name": name, "instance_type": INSTANCE_TYPE, "hosts": list(members)}
            for name, members in groups.items()
        ],
        "network_interface_name": "eth0",
    }
