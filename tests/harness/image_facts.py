"""The answers that Docker and the probe give of a small image, for tests that need facts of known content."""

from __future__ import annotations

import json
from typing import Any

from dlc.inspection.facts import Facts, make_facts

INSPECTED: dict[str, Any] = {
    "Id": f"sha256:{'1' * 64}",
    "Created": "2026-11-20T12:00:00Z",
    "Config": {
        "Env": ["PATH=/opt/venv/bin", "OPTIONS=a=b"],
        "Labels": {"org.dlc.id": "toy-1.17-training-cpu-py311", "org.dlc.framework.version": "1.17.0"},
    },
}
HISTORY = [
    json.dumps({"CreatedBy": command, "Size": str(size)})
    for command, size in (('CMD ["train"]', 0), ("RUN install six", 100), ("ADD rootfs.tar /", 1_000))
]
LIBC: dict[str, Any] = {
    "name": "libc6", "version": "2.36-9", "architecture": "amd64", "source": "glibc", "source_version": "2.36-9",
    "homepage": "https://glibc.example.invalid",
    "licences": ["LGPL-2.1", "Unheard-of"], "requires": [], "provides": ["libc6-abi"], "files": 3, "bytes": 700,
    "verification": "a" * 40,
}  # fmt: skip
TINI: dict[str, Any] = {
    **LIBC, "name": "tini", "version": "0.19.0", "source": "tini", "source_version": "0.19.0", "licences": ["Expat"],
    "requires": ["libc6-abi", "not-installed"], "provides": [], "bytes": 50, "verification": "",
}  # fmt: skip
SIX: dict[str, Any] = {
    "name": "six", "version": "1.17.0", "homepage": "", "licences": ["MIT License"],
    "requires": [], "provides": [], "files": 2, "bytes": 90, "verification": "b" * 40,
}  # fmt: skip
LAUNCHER: dict[str, Any] = {
    "name": "dlc-launcher", "version": "0123456789ab", "homepage": "", "licences": ["Apache-2.0"],
    "requires": ["python3", "tini"], "provides": [], "files": 4, "bytes": 60, "verification": "c" * 40,
}  # fmt: skip
PROBED: dict[str, Any] = {
    "os": "Debian GNU/Linux 12 (bookworm)", "python": "3.11.2", "debian": [LIBC, TINI], "python_packages": [SIX],
    "dlc": [],
}  # fmt: skip


def specimen_facts(ref: str = "dlc/toy:1.17-training-cpu-py311", *launcher: dict[str, Any]) -> Facts:
    """Facts of an image with two Debian packages and one of Python, and the launcher where it is given."""
    return make_facts(ref, INSPECTED, HISTORY, {**PROBED, "dlc": launcher})
