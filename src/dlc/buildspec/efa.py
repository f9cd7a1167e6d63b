"""EFA software of an image: what each source of it needs from the buildspec, and what it is built from."""

from __future__ import annotations

from collections.abc import Mapping

from dlc.buildspec.models import Efa
from dlc.buildspec.problems import Problem
from dlc.buildspec.yaml_marks import Node
from dlc.plan import contexts as pinned

# Setting -> what a source that needs it expects there.
MEANINGS = {
    "version": "the release, such as 1.17.3: compat.yml has rules about it",
    "context": "the folder that holds the plug-in's source",
    "url": "the address of the vendor's .tar.gz",
    "sha256": "64 hexadecimal digits; of a folder, `dlc build` says which",
}
NEEDED = {
    "none": (),
    "distro": (),
    "source": ("version", "context"),
    "installer": ("version", "url", "sha256"),
}  # fmt: skip


def missing(efa: Efa, node: Node) -> list[Problem]:
    """A problem for each setting that the image's source of EFA software needs and that is empty."""
    mark = (node.at(("efa", "source")) or node).mark
    return [
        Problem(mark, f"efa.{name}", f"{MEANINGS[name]} (efa.source is {efa.source})", "nothing")
        for name in NEEDED[efa.source]
        if not getattr(efa, name)
    ]


def context(efa: Efa) -> str:
    """The context value that holds the software: a folder with the installer's file, the source, or nothing."""
    if efa.source == "source":
        return pinned.value(efa.sha256, efa.context)
    if efa.source == "installer":
        return pinned.value(efa.sha256, efa.url)
    return "host:nothing"


def arguments(efa: Efa) -> Mapping[str, str]:
    """The build arguments."""
    installed, compiling = _debian_packages(efa)
    return {
        "EFA_SOURCE": efa.source,
        "EFA_VERSION": efa.version,
        "EFA_PACKAGES": " ".join(installed),
        "EFA_BUILD_PACKAGES": " ".join(compiling),
    }


def debian_packages(efa: Efa) -> tuple[str, ...]:
    """Every Debian package that an image or its compiling stage asks for, for EFA."""
    installed, compiling = _debian_packages(efa)
    return (*installed, *compiling)


def _debian_packages(efa: Efa) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(Installed, for compiling.) The installer brings its own libfabric, newer than Debian's."""
    installed = efa.os_packages if efa.source in ("distro", "source") else ()
    return installed, efa.build_packages if efa.source == "source" else ()
