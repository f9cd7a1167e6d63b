"""What a build takes from the host, as a value: the bake file is a pure function of the plan and this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class HostInputs:
    """`root`: the repository. `proxies`: build arguments such as HTTPS_PROXY.

    `contexts`: the name of a `host:<name>`, or a whole `pinned:...` value -> its folder.
    `secrets`: id -> where BuildKit reads it, as bake writes it: `src=/path/of/file` or `env=NAME`.
    `recipes`: a Dockerfile's path in the repository -> the file to build from, where that is another one.
    All paths are absolute.
    """

    root: Path
    contexts: Mapping[str, Path] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    recipes: Mapping[str, Path] = field(default_factory=dict)
