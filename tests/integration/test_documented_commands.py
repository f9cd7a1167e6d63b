"""Every shell command that the README, docs/using.md and examples/README.md show works as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from dlc.core.process import run
from harness.engine import CALM_OPTIONS, connect, docker
from harness.images import Image

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

DOCUMENTED = "dlc/pytorch:2.13-training-cpu-py311"
CONTAINERS = ("training-to-stop", "training-algo-1", "training-algo-2")
NETWORK = "training"


def commands(page: Path) -> str:
    """The shell blocks of a page, one after the other."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", ["README.md", "docs/using.md", "examples/README.md"])
def test_commands_of_the_page_work(page: str, image: Image, tmp_path: Path) -> None:
    shutil.copytree(find_root() / "examples", tmp_path / "examples")
    script = commands(find_root() / page).replace(DOCUMENTED, image.ref)
    assert image.ref in script, "the page shows no command for this image"
    script = script.replace("docker run ", f"docker run {shlex.join(CALM_OPTIONS)} ")
    try:
        done = run(
            ["bash", "-eux", "-o", "pipefail", "-c", script],
            cwd=tmp_path, env=connect().environment, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        docker("rm", "--force", *CONTAINERS, check=False)
        docker("network", "rm", NETWORK, check=False)
