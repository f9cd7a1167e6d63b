"""EFA software of an image: what each source of it needs from the buildspec, and its Debian packages."""

from __future__ import annotations

from dlc.buildspec.models import Efa
from dlc.buildspec.problems import Problem
from dlc.buildspec.yaml_marks import Node

# Setting -> what a source that needs it expects there.
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
    """The Debian packages that an image asks for, for EFA. The installer brings its own, newer ones."""
    return efa.os_packages if efa.source == "distro" else ()
