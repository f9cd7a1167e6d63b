"""The licence label says what is inside, and every licence's text is in the image."""

from __future__ import annotations

import re

import pytest

from dlc.core import labels
from dlc.images.inspection.facts import Facts, capture
from dlc.images.inspection.licences import declared
from harness.container import Container
from harness.engine import connect
from harness.images import Image

pytestmark = pytest.mark.container

GNU = re.compile(r"\b(A|L)?GPL\b")
NVIDIA = "LicenseRef-NVIDIA-Proprietary"


@pytest.fixture(scope="module")
def facts(image: Image) -> Facts:
    return capture(connect(), image.ref)


def test_the_label_names_gpl_where_packages_do_and_nvidia_where_its_packages_are(facts: Facts) -> None:
    label = facts.labels[labels.LICENSES]
    assert any(GNU.search(declared(package.licences)[0]) for package in facts.packages)
    assert GNU.search(label)
    has_nvidia = any(package.name.lower().startswith("nvidia-") for package in facts.of_kind("python"))
    assert (NVIDIA in label) == (has_nvidia or facts.labels[labels.DEVICE] != "cpu")


def test_every_debian_package_the_launcher_and_the_common_licences_have_their_text(container: Container) -> None:
    listed = container.ask("dpkg-query", "--show", "--showformat", "${Package}\n").split()
    # Some share the folder of another package of the same source, by a link.
    files = [f"/usr/share/doc/{name}/copyright" for name in listed]
    own = ["/opt/dlc/entrypoint/LICENSE", "/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]
    missing = "import os, sys; print([path for path in sys.argv[1:] if not os.path.exists(path)])"
    assert container.python(missing, *files, *own) == "[]\n"
