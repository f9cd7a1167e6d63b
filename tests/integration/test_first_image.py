"""docs/first-image.md as it stands: from the release's files alone to a signed image of one's own, and its job.

The host is this one and its engine the one that is there; the home folder is empty. If Debian has security fixes today
that the recipes do not record, the test does what the page says about that. If the index has no advisories, a dump in
which nothing is listed answers in its place; the page's own host needs a source.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from release import describe_wheel

from dlc.core.checkout import find_root
from dlc.core.environment import CA_VARIABLES
from dlc.core.errors import ImageError
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
MOST_STEPS, SCAN = 12, 6
REFERENCE = "127.0.0.1:5001/images/pytorch:2.13.0-training-cpu-py311-mine-bookworm"
OWN = "mine/pytorch:2.13-training-cpu-py311-mine"
# What a host may need to reach packages; all else is HOME, PATH and the engine.
KEPT = ("PATH", *CA_VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
# The page's registry runs until its shell is closed.
NEW_SHELL = "trap 'jobs -p | xargs --no-run-if-empty kill' EXIT\n. ~/dlc/bin/activate\ncd ~/mine\n"
# A finding as `dlc scan` prints it, and the page's exception for one.
FOUND = re.compile(r"^ +open +(\S+) +\S+ +(\S+)", re.MULTILINE)
SHOWN = re.compile(r"^  - \{advisory: .*\}\n", re.MULTILINE)
EXCEPTION = '  - {{advisory: {1}, package: {0}, reason: a test, owner: me, expires: "{2}"}}\n'


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
    address = {name: value for name, value in connect().environment.items() if name.startswith("DOCKER_")}
    dump = write_empty_dump(tmp_path / "all.zip")
    yield {**kept, **address, "HOME": str(tmp_path / "home"), "DLC_OSV_DUMP": dump}
    docker("image", "rm", "--force", REFERENCE, OWN, check=False)


@pytest.mark.long
def test_the_page_leads_from_the_release_to_a_verified_image_and_its_job(
    image: Image, host: dict[str, str], tmp_path: Path
) -> None:
    assert f"mine/{image.variant.ref.partition('/')[2]}-mine" == OWN, "the page starts from another image"
    *_, wheel = build_package(tmp_path / "built")
    release = tmp_path / "release"
    release.mkdir()
    shutil.copy(wheel, release)
    for name, text in describe_wheel(find_root(), wheel, EPOCH).items():
        (release / name).write_text(text)
    steps = read_steps()
    done = run_steps(steps[:SCAN], 1, release, host)
    if done.returncode == ImageError.exit_code and (found := FOUND.findall(done.stdout)):
        [remedy] = find_blocks(PAGE.read_text())
        day = date.today() + timedelta(days=1)
        lines = "".join(EXCEPTION.format(*finding, day) for finding in found)
        done = run_steps([SHOWN.sub(lines, remedy)], SCAN, release, host, NEW_SHELL)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_steps(steps[SCAN:], SCAN + 1, release, host, NEW_SHELL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("epoch=2 ") == 2, "two jobs"
    assert re.search(r"^ +signature +key ", done.stdout, re.MULTILINE)
    assert len({path.parent for path in (tmp_path / "home").glob("**/dlc-jobs/*/model/*")}) == 2


def run_steps(
    steps: list[str], first: int, folder: Path, host: dict[str, str], begin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run steps in one shell, as a user types them; show when each begins and what it prints."""
    script = "".join(f'echo "step {number} begins at $SECONDS s"\n{step}' for number, step in enumerate(steps, first))
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", f'{begin}{script}echo "ends at $SECONDS s"'],
        cwd=folder, env=host, timeout=2 * toy.BUILD_SECONDS, check=False, capture_output=True, text=True,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    return done


def test_the_page_has_at_most_twelve_steps_each_with_a_line_that_says_what_it_does() -> None:
    page = PAGE.read_text()
    assert len(read_steps()) <= MOST_STEPS
    numbers = [int(number) for number in re.findall(r"^(\d+)\. [A-Z].*[:;].*\n(?:.*\n)?\n```sh$", page, re.MULTILINE)]
    assert numbers == list(range(1, len(read_steps()) + 1))
