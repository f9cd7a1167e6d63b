"""One image that can be built: its names, its settings, and what its lock must hold."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from dlc.buildspec.models import Header, Settings
from dlc.buildspec.yaml_marks import Node

PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class Variant:
    """An image of the matrix. Requirements are exact (`torch==2.13.0+cpu`), the framework's own first."""

    header: Header
    settings: Settings
    node: Node
    framework_requirements: tuple[str, ...]
    training_requirements: tuple[str, ...]

    @property
    def id(self) -> str:
        """`pytorch-2.13-training-cpu-py311`."""
        return f"{self.header.framework}-{self._rest}"

    @property
    def ref(self) -> str:
        """`dlc/pytorch:2.13-training-cpu-py311`."""
        return f"{self.settings.repository}/{self.header.framework}:{self._rest}"

    @property
    def _rest(self) -> str:
        header, settings = self.header, self.settings
        return f"{header.version}-{header.job}-{settings.device}-py{settings.python.replace('.', '')}"

    @property
    def suite(self) -> str:
        """Debian's name of the release that packages this Python."""
        return self.settings.suites[self.settings.python]

    @property
    def source_built(self) -> tuple[str, ...]:
        """Names of the packages that have no wheel."""
        return tuple(normal_name(requirement) for requirement in self.settings.packages.source)

    @property
    def compiled(self) -> tuple[str, ...]:
        """Names of the packages that are compiled against the framework."""
        return tuple(normal_name(requirement) for requirement in self.settings.packages.compiled)

    @property
    def dockerfile(self) -> str:
        """Path of the recipe from the repository's root."""
        return f"docker/{self.header.framework}/Dockerfile"

    @property
    def lock_folder(self) -> str:
        """Path of the folder with the locks, which is the build's main context."""
        return f"docker/{self.header.framework}/locks/{self.id}"

    def lock_input(self) -> str:
        """All that a lock is resolved from, as canonical text: equal text, equal lock."""
        values = {
            "framework": self.framework_requirements,
            "training": self.training_requirements,
            "source": self.source_built,
            "compiled": self.compiled,
            "python": self.settings.python,
            "suite": self.suite,
            "platform": PLATFORM,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def lock_digest(self) -> str:
        """`sha256:...` of the lock input, as the first line of each lock file records it."""
        return f"sha256:{hashlib.sha256(self.lock_input().encode()).hexdigest()}"


def normal_name(requirement: str) -> str:
    """The package's name as indexes compare it: lower case, dashes, no extras and no version."""
    name = re.split(r"[\[=<>!~; ]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
