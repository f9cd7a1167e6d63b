"""Every command in the README, docs/using.md, docs/running.md and examples/README.md works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from dlc.core.process import run_program
from harness.engine import CALM_OPTIONS, connect, docker
from harness.images import Image

DOCUMENTED, DOCUMENTED_ID = "dlc/pytorch:2.13-training-cpu-py311", "pytorch-2.13-training-cpu-py311"
CONTAINER = "training-to-stop"
SECONDS = 1800.0  # of a page's commands: only a hang takes that long
# The data that the page's `--channel` brings, as the example script reads them.
WRITE_DIGITS = """
import numpy, sklearn.datasets
digits = sklearn.datasets.load_digits()
numpy.savez("/data/digits.npz", images=digits.images, labels=digits.target)
"""
DLC = """\
#!/bin/sh
case "$*" in "run --remove"*) ;; run*) calm="{calm}" ;; esac
verb=$1
shift
exec {python} -m dlc "$verb" $calm "$@"
"""
A_JOB = "20261120-093000-0a1b2c"

pytestmark = [
    pytest.mark.integration, pytest.mark.when(framework="pytorch"), pytest.mark.timeout(SECONDS + 300),
]  # fmt: skip


def commands(page: Path) -> str:
    """The shell blocks of a page, one after the other."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))


def lines_of_running() -> list[str]:
    """The commands of docs/running.md, each in a line."""
    blocks = re.findall(r"^```\n(.*?)^```", (find_root() / "docs/running.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("number", range(len(lines_of_running())))
def test_a_command_of_the_page_about_running_works(number: int, image: Image, tmp_path: Path) -> None:
    """In a folder that has what the page says: the script of `dlc init`, and its data."""
    line = lines_of_running()[number]
    shutil.copy(find_root() / "examples/pytorch/train.py", tmp_path)
    if "./data" in line:
        (tmp_path / "data").mkdir()
        docker("run", "--rm", *CALM_OPTIONS, "-v", f"{tmp_path}/data:/data", image.ref, "python", "-c", WRITE_DIGITS)
    program = tmp_path / "bin/dlc"
    program.parent.mkdir()
    program.write_text(DLC.format(calm=" ".join(CALM_OPTIONS), python=sys.executable))
    program.chmod(0o755)
    command = line.replace(DOCUMENTED_ID, image.variant.id).replace("--remove JOB", f"--remove {A_JOB}")
    settings = {**connect().environment, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    settings["DLC_CACHE_DIR"] = str(tmp_path / "cache")
    done = run_program(["bash", "-eu", "-c", command], cwd=tmp_path, env=settings, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if line.startswith("dlc run") and not any(word in line for word in ("--explain", "--save", "--remove")):
        [model] = tmp_path.glob("dlc-jobs/*/model")
        assert list(model.iterdir())


@pytest.mark.parametrize("page", ["README.md", "docs/using.md", "examples/README.md"])
def test_commands_of_the_page_work(page: str, image: Image, tmp_path: Path) -> None:
    shutil.copytree(find_root() / "examples", tmp_path / "examples")
    shutil.copy(find_root() / "examples/pytorch/train.py", tmp_path)
    script = commands(find_root() / page).replace(DOCUMENTED, image.ref)
    assert image.ref in script, "the page shows no command for this image"
    script = script.replace("docker run ", f"docker run {shlex.join(CALM_OPTIONS)} ")
    try:
        done = run_program(
            ["bash", "-eux", "-o", "pipefail", "-c", script],
            cwd=tmp_path, env=connect().environment, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        docker("rm", "--force", CONTAINER, check=False)
