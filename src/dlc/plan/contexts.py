"""The sources of a build's files: one type for each kind. Their text is what `dlc plan` shows."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Repo:
    """A folder of the repository, by its path from the root."""

    folder: str

    def __str__(self) -> str:
        return f"repo:{self.folder}"


@dataclass(frozen=True)
class Host:
    """Files that `dlc.image_build.host_inputs` prepares on this host; `version` if it changes what is in the image.

    `locks`: the lock files whose wheels they are, by their path from the root.
    """

    name: str
    version: str = ""
    locks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"host:{self.name}" + (f"=={self.version}" if self.version else "")


@dataclass(frozen=True)
class TargetRef:
    """The result of another target of the plan."""

    id: str

    def __str__(self) -> str:
        return f"target:{self.id}"


@dataclass(frozen=True)
class Image:
    """An image that exists already. `digest` (`sha256:...`) is empty until `dlc.image_build.base_images` has found it.

    `local`: the engine has it, and finds it by its tag alone.
    """

    reference: str
    digest: str = ""
    local: bool = False

    def __str__(self) -> str:
        return f"image:{self.reference}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True)
class Pinned:
    """A file at an address, taken only if this is its sha256 (64 hexadecimal digits)."""

    sha256: str
    address: str

    def __str__(self) -> str:
        return f"pinned:{self.sha256}@{self.address}"


Context = Repo | Host | TargetRef | Image | Pinned


def make_identity(context: Context) -> str:
    """Return a context as content keys have it: the address of a file with a known hash is no part of it."""
    return str(replace(context, address="")) if isinstance(context, Pinned) else str(context)
