"""What a build takes from the host, as a value: the bake file is a pure function of the plan and this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlc.plan.contexts import Context


@dataclass(frozen=True)
class HostInputs:
    """`contexts`: the folder of each context of the plan that is a folder.

    `dockerfiles`: a Dockerfile's path in the repository -> the file to build from.
    `proxies`: build arguments such as HTTPS_PROXY.
    `secrets`: id -> where BuildKit reads it, as bake writes it: `src=/path/of/file` or `env=NAME`.
    All paths are absolute.
    """

    contexts: Mapping[Context, Path] = field(default_factory=dict)
    dockerfiles: Mapping[str, Path] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
