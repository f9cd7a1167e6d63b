"""An image takes its EFA software from the vendor's installer, or the plug-in's source, by its hash alone.

The vendor's own installer (600 MB) is not fetched: a tarball with its folders and small packages stands for it. So does
a library of one line for the plug-in's source, which docs/efa.md says what came of.
"""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dlc.build import fetch
from dlc.core.errors import BuildError, LockError
from harness import efa_installer, toy
from harness.engine import docker

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-efa"
DEVICE = ("--set", "device=cu128")
REF = toy.ref(REPOSITORY).replace("cpu", "cu128")
FILE = "aws-efa-installer-1.50.0.tar.gz"
LOADED = """
import ctypes
with open("/proc/self/maps") as maps:
    ctypes.CDLL("libnccl-net.so")
    print(any("libz.so" in line for line in maps))
"""


PLUGIN_SOURCE = {
    "LICENSE": "Apache License\n",
    "configure.ac": "",
    "autogen.sh": "#!/bin/sh\n",
    "configure": """#!/bin/sh
for word in "$@"; do
    case $word in
        --libdir=*) libdir=${word#*=} ;;
        --with-cuda=*) cuda=${word#*=} ;;
        LDFLAGS=*) flags=${word#*=} ;;
    esac
done
cat >Makefile <<MAKEFILE
all: ; gcc -shared -fPIC -I$cuda/include $flags plugin.c -L$cuda/lib64 -lcudart -o libnccl-net.so
install: ; mkdir -p \\$(DESTDIR)$libdir && cp libnccl-net.so \\$(DESTDIR)$libdir
MAKEFILE
""",
    "plugin.c": "#include <cuda_runtime_api.h>\nint ncclNetPlugin_v6 = CUDART_VERSION;\n"
    "int version(int *found) { return cudaRuntimeGetVersion(found); }\n",
}
CUDA = "six==1.17.0, nvidia-cuda-runtime==13.2.86, nvidia-cuda-crt==13.2.86"
COMPILED = """
import ctypes
plugin = ctypes.CDLL("libnccl-net-ofi.so")
found = ctypes.c_int()
assert plugin.version(ctypes.byref(found)) == 0
print(ctypes.c_int.in_dll(plugin, "ncclNetPlugin_v6").value == found.value == 13020)
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
    root = tmp_path_factory.mktemp("efa") / "checkout"
    toy.make_checkout(root, REPOSITORY)
    assert toy.dlc(root, "lock", "toy-*", *DEVICE).returncode == 0
    yield root
    docker("image", "rm", "--force", REF, check=False)


@pytest.fixture
def vendor(tmp_path: Path) -> Iterator[Vendor]:
    serving = Vendor(tmp_path)
    yield serving
    serving.server.shutdown()
    serving.server.server_close()


def build(root: Path, cache: Path, vendor: Vendor, sha256: str) -> subprocess.CompletedProcess[str]:
    wanted = {"source": "installer", "version": "1.50.0", "url": vendor.url, "sha256": sha256}
    sets = [word for name, value in wanted.items() for word in ("--set", f"efa.{name}={value}")]
    return toy.dlc(root, "build", "toy-*", *DEVICE, *sets, DLC_CACHE_DIR=str(cache), NO_PROXY="127.0.0.1")


def ask(*argv: str) -> str:
    return docker("run", "--rm", "--entrypoint", argv[0], REF, *argv[1:]).stdout


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

    packages = ask("dpkg-query", "--show", "--showformat", "${Package} ${Version}\n").splitlines()
    assert {f"{name.rpartition('/')[2]} 99.0" for name in efa_installer.WANTED} <= set(packages)
    assert not [line for line in packages if line.startswith(("efa ", "openmpi50", "libfabric-aws-"))]
    found = [line for line in ask("ldconfig", "-p").splitlines() if "libfabric.so.1 " in line]
    assert found[0].endswith(f"=> {efa_installer.LIBFABRIC}")
    assert ask("python", "-c", LOADED) == "True\n"


def test_an_installer_without_packages_for_the_images_debian_is_refused_with_what_it_has(
    checkout: Path, vendor: Vendor, tmp_path: Path
) -> None:
    sha256 = efa_installer.write(tmp_path / FILE, "UBUNTU2204")
    refused = build(checkout, tmp_path / "cache", vendor, sha256)
    assert refused.returncode == BuildError.exit_code
    assert "expected packages in DEBS/DEBIAN12/x86_64, found only: DEBS/UBUNTU2204/x86_64" in refused.stderr


def test_the_plug_in_is_compiled_with_the_locks_cuda_and_found_by_its_name(engine: None, tmp_path: Path) -> None:
    root, source = tmp_path / "checkout", tmp_path / "plugin"
    source.mkdir()
    for name, text in PLUGIN_SOURCE.items():
        (source / name).write_text(text)
        (source / name).chmod(0o755)
    toy.make_checkout(root, REPOSITORY, CUDA)
    wanted = {"source": "source", "version": "1.7.4", "context": str(source)}
    sets = [*DEVICE, *(word for name, value in wanted.items() for word in ("--set", f"efa.{name}={value}"))]
    assert toy.dlc(root, "lock", "toy-*", *sets).returncode == 0
    refused = toy.dlc(root, "build", "toy-*", *sets)
    assert refused.returncode == LockError.exit_code
    assert f"efa.sha256={fetch.digest(source)}" in refused.stderr
    built = toy.dlc(root, "build", "toy-*", *sets, "--set", f"efa.sha256={fetch.digest(source)}")
    try:
        assert built.returncode == 0, built.stderr
        assert ask("dpkg-query", "--show", "--showformat", "${Version}", "aws-ofi-nccl") == "1.7.4"
        assert ask("python", "-c", COMPILED) == "True\n"
    finally:
        docker("image", "rm", "--force", REF, check=False)
