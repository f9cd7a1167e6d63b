"""What NCCL and MPI need to talk over an Elastic Fabric Adapter is in the images that ask for it, and is quiet."""

from __future__ import annotations

import pytest

from harness.container import Container
from harness.images import Image

pytestmark = [pytest.mark.container, pytest.mark.when(efa={"source": "[dsi]*"})]

# fi_getinfo(1.6, any): what libfabric finds here; then whether it brought the library that its EFA provider is made of.
LIBFABRIC = """
import ctypes
libfabric = ctypes.CDLL("libfabric.so.1")
print(libfabric.fi_getinfo(1 << 16 | 6, None, None, ctypes.c_uint64(0), None, ctypes.byref(ctypes.c_void_p())))
with open("/proc/self/maps") as maps:
    print(any("/libefa.so.1" in line for line in maps))
"""
PLUGIN = "import ctypes; ctypes.CDLL('libnccl-net.so')"


def test_libfabric_has_its_efa_provider_and_is_quiet_on_a_host_without_efa(container: Container) -> None:
    code, output, errors = container.try_to("python", "-c", LIBFABRIC)
    assert (code, output.split(), errors) == (0, ["0", "True"], "")


def test_the_verbs_library_finds_its_driver_for_efa(container: Container) -> None:
    """libibverbs loads the driver that a file of this folder names when it meets the device."""
    assert container.host.file("/etc/libibverbs.d/efa.driver").content_string.split() == ["driver", "efa"]
    [driver] = container.find("-name", "libefa-rdmav*.so", below=("/usr/lib",))
    container.python("import ctypes, sys; ctypes.CDLL(sys.argv[1])", driver)


def test_nccl_finds_its_plug_in_for_efa_exactly_where_the_image_has_one(container: Container, image: Image) -> None:
    code, _, errors = container.try_to("python", "-c", PLUGIN)
    if image.variant.settings.efa.source == "distro":
        assert code == 1
        assert "libnccl-net.so: cannot open shared object file" in errors
    else:
        assert code == 0, errors
