"""An EFA installer of a test's own: small Debian packages in the folders of the vendor's tarball."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LIBFABRIC = "/opt/amazon/efa/lib/libfabric.so.1"
PLUGIN = "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so"
# Package -> its links. They lead to libraries of Debian, so that the loader takes them.
WANTED = {
    "libfabric1-aws": {LIBFABRIC: f"{LIBRARIES}/libfabric.so.1"},
    "libnccl-ofi": {PLUGIN: f"{LIBRARIES}/libz.so.1"},
    "rdma-core/ibverbs-providers": {f"{LIBRARIES}/libefa.so.1": f"{LIBRARIES}/libz.so.1"},
}
UNWANTED = ("efa-driver/efa", "openmpi50-aws", "libfabric-aws-dev", "libfabric-aws-bin", "debug/libnccl-ofi")
VERSION = "99.0"  # newer than Debian's


def write(path: Path, system: str) -> str:
    """Write a tarball with the packages in DEBS/<system>/x86_64, the unwanted ones broken; return its sha256."""
    with tarfile.open(path, "w:gz") as archive:
        for name, links in WANTED.items():
            content = package(name.rpartition("/")[2], links)
            _add(archive, f"aws-efa-installer/DEBS/{system}/x86_64/{name}_{VERSION}_amd64.deb", content)
        for name in UNWANTED:
            _add(archive, f"aws-efa-installer/DEBS/{system}/x86_64/{name}_{VERSION}_amd64.deb", b"no package")
        _add(archive, "aws-efa-installer/efa_installer.sh", b"exit 1\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package(name: str, links: Mapping[str, str]) -> bytes:
    """A Debian package: an ar archive of its format's version, its control file and its files."""
    control = f"Package: {name}\nVersion: {VERSION}\nArchitecture: amd64\nMulti-Arch: same\nMaintainer: nobody\n"
    about = io.BytesIO()
    with tarfile.open(fileobj=about, mode="w:gz") as archive:
        _add(archive, "./control", f"{control}Description: made by a test\n".encode())
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, target in links.items():
            for parent in reversed(PurePosixPath(path).parents[:-1]):
                folder = tarfile.TarInfo(f".{parent}")
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(folder)
            link = tarfile.TarInfo(f".{path}")
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    members = {"debian-binary": b"2.0\n", "control.tar.gz": about.getvalue(), "data.tar.gz": content.getvalue()}
    return b"!<arch>\n" + b"".join(_member(name, data) for name, data in members.items())


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
