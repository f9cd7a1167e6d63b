"""The EFA software of an image: the settings that each source needs, and its Debian packages."""

from __future__ import annotations

from dlc.buildspec.models import Efa
from dlc.buildspec.problems import Problem
from dlc.buildspec.yaml_marks import Node

# Setting -> what it must hold where a source needs it.
MEANINGS = {
    "version": "the installer's release, such as 1.50.0: compat.yml has rules about it",
    "url": "the address of the vendor's .tar.gz",
    "sha256": "its sha256, 64 hexadecimal digits",
}
NEEDED = {
    "none": (),
    "distro": (),
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


def debian_packages(efa: Efa) -> tuple[str, ...]:
    """The Debian packages that EFA adds to an image. The installer has newer ones of its own."""
    return efa.os_packages if efa.source == "distro" else ()
