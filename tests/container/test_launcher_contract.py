"""The contract's worked cases, asked of the launcher in the image with the Python that it runs on there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.engine import RUN_LABEL, docker
from harness.images import Image

pytestmark = pytest.mark.container

# pytest and its needs at the end of the path: the launcher has the standard library only.
START = 'import sys; sys.path.append("/pytest"); import pytest; sys.exit(pytest.main(sys.argv[1:]))'


def test_the_launcher_in_the_image_fulfils_the_contract(image: Image) -> None:
    root = find_root(Path(__file__).parent)
    python = image.variant.settings.python
    done = subprocess.run([root / "scripts/image-pytest.sh", python], capture_output=True, text=True, check=True)
    words = ["run", "--rm", "--label", RUN_LABEL, "--entrypoint", "/usr/bin/python3", "--workdir", "/repository"]
    words += ["--volume", f"{root}:/repository:ro", "--volume", f"{done.stdout.strip()}:/pytest:ro"]
    # The cases do not say which frameworks are installed; without the environment the launcher knows as little.
    words += ["--tmpfs", "/opt/venv", "--env", "PYTHONDONTWRITEBYTECODE=1"]
    words += ["--env", "PYTHONPATH=/opt/dlc/entrypoint:/repository/tests"]
    asked = docker(
        *words, image.ref, "-c", START, "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-k", "case_of_the_contract",
        "tests/unit/entrypoint/test_conformance.py", check=False, seconds=300.0,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert " passed" in asked.stdout
    assert "skipped" not in asked.stdout
