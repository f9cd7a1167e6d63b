"""An image takes its EFA software from the vendor's installer, by its hash alone.

The vendor's own installer (600 MB) is not fetched: a tarball with its folders and small packages stands for it.
"""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dlc.core.errors import BuildError, LockError
from harness import efa_installer, toy
from harness.engine import docker

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-efa"
DEVICE = "device=cu128"
FILE = "aws-efa-installer-1.50.0.tar.gz"
LOADED = """
import ctypes
with open("/proc/self/maps") as maps:
    ctypes.CDLL("libnccl-net.so")
    print(any("libz.so" in line for line in maps))
"""


class Vendor:
    """Serves a folder on loopback and counts what it was asked for."""

    def __init__(self, folder: Path) -> None:
        vendor, self.asked = self, 0

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                vendor.asked += 1
                super().do_GET()

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_port}/{FILE}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def checkout(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("efa")
    with toy.checkout_for(DEVICE, folder, REPOSITORY, toy.WITH_OPEN_MPI) as root:  # it brings Debian's libfabric
        yield root


@pytest.fixture
def vendor(tmp_path: Path) -> Iterator[Vendor]:
    serving = Vendor(tmp_path)
    yield serving
    serving.server.shutdown()
    serving.server.server_close()


def settings(vendor: Vendor, sha256: str) -> list[str]:
    wanted = {"source": "installer", "version": "1.50.0", "url": vendor.url, "sha256": sha256}
    return [DEVICE, *(f"efa.{name}={value}" for name, value in wanted.items())]


def build(root: Path, cache: Path, vendor: Vendor, sha256: str) -> subprocess.CompletedProcess[str]:
    sets = [word for setting in settings(vendor, sha256) for word in ("--set", setting)]
    return toy.dlc(root, "build", "toy-*", *sets, DLC_CACHE_DIR=str(cache), NO_PROXY="127.0.0.1")


def ask(ref: str, *argv: str) -> str:
    return docker("run", "--rm", "--entrypoint", argv[0], ref, *argv[1:]).stdout


def test_a_wrong_checksum_unpacks_nothing_and_the_right_one_goes_on(
    checkout: Path, vendor: Vendor, tmp_path: Path
) -> None:
    sha256 = efa_installer.write(tmp_path / FILE, "DEBIAN12")
    cache = tmp_path / "cache"
    refused = build(checkout, cache, vendor, "0" * 64)
    assert refused.returncode == LockError.exit_code
    assert f"{vendor.url}: expected sha256 {'0' * 64}, found {sha256}; it was not unpacked" in refused.stderr
    assert not list(cache.glob("pinned/*"))

    built = build(checkout, cache, vendor, sha256)
    assert built.returncode == 0, built.stderr
    assert vendor.asked == 2
    again = build(checkout, cache, vendor, sha256)
    assert again.returncode == 0, again.stderr
    assert vendor.asked == 2

    ref = toy.changed_ref(checkout, *settings(vendor, sha256))
    packages = ask(ref, "dpkg-query", "--show", "--showformat", "${Package} ${Version}\n").splitlines()
    assert {f"{name.rpartition('/')[2]} 99.0" for name in efa_installer.WANTED} <= set(packages)
    assert not [line for line in packages if line.startswith(("efa ", "openmpi50", "libfabric-aws-"))]
    found = [line for line in ask(ref, "ldconfig", "-p").splitlines() if "libfabric.so.1 " in line]
    assert found[0].endswith(f"=> {efa_installer.LIBFABRIC}")
    assert ask(ref, "python", "-c", LOADED) == "True\n"


@pytest.mark.long
def test_an_installer_without_packages_for_the_images_debian_is_refused_with_what_it_has(
    checkout: Path, vendor: Vendor, tmp_path: Path
) -> None:
    sha256 = efa_installer.write(tmp_path / FILE, "UBUNTU2204")
    refused = build(checkout, tmp_path / "cache", vendor, sha256)
    assert refused.returncode == BuildError.exit_code
    assert "expected packages in DEBS/DEBIAN12/x86_64, found only: DEBS/UBUNTU2204/x86_64" in refused.stderr
