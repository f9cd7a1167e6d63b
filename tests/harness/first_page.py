"""Follows docs/first-image.md as a user types it, on this host or on another system."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from release import describe_wheel

from dlc.core.checkout import find_root
from dlc.core.errors import ImageError
from harness.installed import EPOCH, build_package
from harness.pages import find_blocks

PAGE = find_root(Path(__file__).parent) / "docs/first-image.md"
SCAN = 6
# The page's registry runs until its shell is closed.
NEW_SHELL = "trap 'jobs -p | xargs --no-run-if-empty kill' EXIT\n. ~/dlc/bin/activate\ncd ~/mine\n"
# A finding as `dlc scan` prints it, and the page's exception for one.
FOUND = re.compile(r"^ +open +(\S+) +\S+ +(\S+)", re.MULTILINE)
SHOWN = re.compile(r"^  - \{advisory: .*\}\n", re.MULTILINE)
EXCEPTION = '  - {{advisory: {1}, package: {0}, reason: a test, owner: me, expires: "{2}"}}\n'

# Runs a script of bash in the release's folder.
Run = Callable[[str], "subprocess.CompletedProcess[str]"]


def read_steps() -> list[str]:
    """Return what the page tells to type, step by step."""
    return find_blocks(PAGE.read_text(), "sh")


def make_release(folder: Path) -> Path:
    """Make a release of this checkout; return the folder of its files."""
    *_, wheel = build_package(folder / "built")
    release = folder / "release"
    release.mkdir()
    shutil.copy(wheel, release)
    for name, text in describe_wheel(find_root(), wheel, EPOCH).items():
        (release / name).write_text(text)
    return release


def write_empty_dump(path: Path) -> str:
    """Write OSV's dump of PyPI with an advisory about another package; return its checksum as DLC_OSV_DUMP has it."""
    affected = {"package": {"ecosystem": "PyPI", "name": "other"}, "versions": ["1.0"]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.json", json.dumps({"id": "1", "modified": "2026-11-20T10:00:00Z", "affected": [affected]}))
    return f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"


def follow_page(run: Run) -> None:
    """Type all steps; if Debian has security fixes today that the recipes lack, do what the page says about that."""
    steps = read_steps()
    done = run(_script(steps[:SCAN], 1))
    if done.returncode == ImageError.exit_code and (found := FOUND.findall(done.stdout)):
        [remedy] = find_blocks(PAGE.read_text())
        day = date.today() + timedelta(days=1)
        lines = "".join(EXCEPTION.format(*finding, day) for finding in found)
        done = run(_script([SHOWN.sub(lines, remedy)], SCAN, NEW_SHELL))
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(_script(steps[SCAN:], SCAN + 1, NEW_SHELL))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("epoch=2 training_loss=") == 2, "two jobs"
    assert re.search(r"^ +signature +key ", done.stdout, re.MULTILINE)


def _script(steps: list[str], first: int, begin: str = "") -> str:
    """Return steps as a user types them into one shell; it shows when each begins."""
    script = "".join(f'echo "step {number} begins at $SECONDS s"\n{step}' for number, step in enumerate(steps, first))
    return f'{begin}{script}echo "ends at $SECONDS s"'
