"""Every licence's text is in the image."""

from __future__ import annotations

import pytest

from harness.container import Container

pytestmark = pytest.mark.container


def test_every_debian_package_the_launcher_and_the_common_licences_have_their_text(container: Container) -> None:
    listed = container.ask("dpkg-query", "--show", "--showformat", "${Package}\n").split()
    # Some share the folder of another package of the same source, by a link.
    files = [f"/usr/share/doc/{name}/copyright" for name in listed]
    own = ["/opt/dlc/entrypoint/LICENSE", "/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]
    missing = "import os, sys; print([path for path in sys.argv[1:] if not os.path.exists(path)])"
    assert container.python(missing, *files, *own) == "[]\n"
