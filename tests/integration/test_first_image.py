"""docs/first-image.md as it stands: from a release's files alone to a signed image of one's own, and its job.

The host is this one and its engine the one that is there; the home folder is empty. If this host reaches no source of
advisories, the test names a dump in which nothing is listed: the page's own host needs a source.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from release import describe_wheel

from dlc.core.checkout import find_root
from dlc.core.environment import CA_VARIABLES
from dlc.core.process import run_program
from harness import toy
from harness.engine import connect, docker
from harness.images import Image
from harness.installed import EPOCH, build_package
from harness.pages import find_blocks

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", device="cpu"),
    pytest.mark.timeout(4 * toy.BUILD_SECONDS),
]
PAGE = find_root(Path(__file__).parent) / "docs/first-image.md"
MOST_STEPS = 12
REFERENCE = "127.0.0.1:5001/images/pytorch:2.13.0-training-cpu-py311-bookworm-mine"
OWN = "mine/pytorch:2.13-training-cpu-py311-mine"
# What a host may need to reach packages; all else is HOME, PATH and the engine.
KEPT = ("PATH", *CA_VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
# The registry of the page runs until its shell is closed.
SHELL = "trap 'kill $(jobs -p)' EXIT\n"


def read_steps() -> list[str]:
    return find_blocks(PAGE.read_text(), "sh")


def write_empty_dump(path: Path) -> str:
    """Write OSV's dump of PyPI with an advisory about another package; return it as DLC_OSV_DUMP names it."""
    affected = {"package": {"ecosystem": "PyPI", "name": "other"}, "versions": ["1.0"]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.json", json.dumps({"id": "1", "modified": "2026-11-20T10:00:00Z", "affected": [affected]}))
    return f"{path}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a new user on this host; what the page made in the engine goes at the end."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("the page is for root on Debian or Ubuntu")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 5001)), "port 5001, which the page uses, is taken on this host"
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("DLC_INDEX_")}
    dump = write_empty_dump(tmp_path / "all.zip")
    address = {name: value for name, value in connect().environment.items() if name.startswith("DOCKER_")}
    yield {**kept, **address, "HOME": str(tmp_path / "home"), "DLC_OSV_DUMP": dump}
    docker("image", "rm", "--force", REFERENCE, OWN, check=False)


def test_the_page_leads_from_the_release_to_a_verified_image_and_its_job(
    image: Image, host: dict[str, str], tmp_path: Path
) -> None:
    *_, wheel = build_package(tmp_path / "built")
    release = tmp_path / "release"
    release.mkdir()
    shutil.copy(wheel, release)
    for name, text in describe_wheel(find_root(), wheel, EPOCH).items():
        (release / name).write_text(text)
    steps = read_steps()
    assert image.variant.ref in f"dlc/{OWN.removeprefix('mine/').removesuffix('-mine')}"
    script = "".join(f'echo "step {number} begins at $SECONDS s"\n{step}' for number, step in enumerate(steps, 1))
    done = run_program(
        ["bash", "-eu", "-o", "pipefail", "-c", f"{SHELL}{script}echo all at $SECONDS s"],
        cwd=release, env=host, timeout=3 * toy.BUILD_SECONDS, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "einops 0." in done.stdout
    assert done.stdout.count("epoch=2 ") == 2, "two jobs"
    assert "signature   key" in done.stdout
    weights = sorted((tmp_path / "home").glob("**/dlc-jobs/*/model/*"))
    assert len({path.parent for path in weights}) == 2


def test_the_page_has_at_most_twelve_steps_each_with_a_line_that_says_what_it_does() -> None:
    page = PAGE.read_text()
    assert len(read_steps()) <= MOST_STEPS
    numbers = [int(number) for number in re.findall(r"^(\d+)\. [A-Z].*[:;].*\n(?:.*\n)?\n```sh$", page, re.MULTILINE)]
    assert numbers == list(range(1, len(read_steps()) + 1))
