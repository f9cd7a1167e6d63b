"""docs/first-image.md as it stands: from the release's files alone to a signed image of one's own, and its job.

The host is this one and its engine the one that is there; the home folder is empty. If the index has no advisories, a
dump in which nothing is listed answers in its place; the page's own host needs a source. test_userlands.py types the
page on a system that has no engine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.environment import CA_VARIABLES
from harness import toy
from harness.engine import connect, docker
from harness.first_page import PAGE, follow_page, make_release, read_steps, write_empty_dump
from harness.images import Image

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", device="cpu"),
    pytest.mark.timeout(4 * toy.BUILD_SECONDS),
]
MOST_STEPS = 12
REFERENCE = "127.0.0.1:5001/images/pytorch:2.13.0-training-cpu-py311-mine-bookworm"
OWN = "mine/pytorch:2.13-training-cpu-py311-mine"
# What a host may need to reach packages; all else is HOME, PATH and the engine.
KEPT = ("PATH", *CA_VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a new user on this host; what the page made in the engine goes at the end."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("the page is for root on Debian or Ubuntu")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 5001)), "port 5001, which the page uses, is taken on this host"
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("DLC_INDEX_")}
    address = {name: value for name, value in connect().environment.items() if name.startswith("DOCKER_")}
    dump = tmp_path / "all.zip"
    yield {**kept, **address, "HOME": str(tmp_path / "home"), "DLC_OSV_DUMP": f"{dump}{write_empty_dump(dump)}"}
    docker("image", "rm", "--force", REFERENCE, OWN, check=False)


@pytest.mark.long
def test_the_page_leads_from_the_release_to_a_verified_image_and_its_job(
    image: Image, host: dict[str, str], tmp_path: Path
) -> None:
    assert f"mine/{image.variant.ref.partition('/')[2]}-mine" == OWN, "the page starts from another image"
    release = make_release(tmp_path)

    def run(script: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-eu", "-o", "pipefail", "-c", script]
        seconds = 2 * toy.BUILD_SECONDS
        return subprocess.run(
            words, cwd=release, env=host, timeout=seconds, check=False, capture_output=True, text=True
        )

    follow_page(run)
    assert len({path.parent for path in (tmp_path / "home").glob("**/dlc-jobs/*/model/*")}) == 2


def test_the_page_has_at_most_twelve_steps_each_with_a_line_that_says_what_it_does() -> None:
    page = PAGE.read_text()
    assert len(read_steps()) <= MOST_STEPS
    numbers = [int(number) for number in re.findall(r"^(\d+)\. [A-Z].*[:;].*\n(?:.*\n)?\n```sh$", page, re.MULTILINE)]
    assert numbers == list(range(1, len(read_steps()) + 1))
