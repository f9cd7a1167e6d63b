"""Gathers the wheels that a GPU host without a network lacks, small enough to carry along."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_MIB = 64
WITH_REQUIREMENTS = ("transformers", "pytest")
ALONE = ("accelerate", "psutil", "grpcio-health-checking")  # their other requirements, such as torch, the host has
# The default image's, whose versions are carried.
LOCK = Path(__file__).parents[2] / "docker/pytorch/locks/pytorch-2.13-training-cpu-py311/training.txt"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def carry(folder: Path, python: str, versions: Sequence[str]) -> str:
    """Download the wheels for a Python such as 3.12 and return what was gathered.

    `versions`: requirements such as grpcio-health-checking==1.84.0, in the place of the default image's version.
    Raises ValueError if a package has no wheel for that Python, or if all are too large to carry.
    """
    chosen = dict(re.findall(r"^(\S+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    chosen = {name: f"{name}=={version}" for name, version in chosen.items()}
    asked = {text.partition("==")[0]: text for text in versions}
    unknown = asked.keys() - {*WITH_REQUIREMENTS, *ALONE}
    if unknown:
        known = ", ".join((*WITH_REQUIREMENTS, *ALONE))
        raise ValueError(f"--with {', '.join(sorted(unknown))}: expected NAME==VERSION of {known}")
    chosen |= asked
    download(folder, python, [chosen.get(name, name) for name in WITH_REQUIREMENTS])
    download(folder, python, ["--no-deps", *(chosen.get(name, name) for name in ALONE)])
    wheels = sorted(folder.glob("*.whl"))
    mib = sum(wheel.stat().st_size for wheel in wheels) / (1 << 20)
    if mib > MOST_MIB:
        raise ValueError(f"{folder}: {mib:.0f} MiB, expected at most {MOST_MIB}; remove wheels that the host has")
    return f"{folder}: {len(wheels)} wheels, {mib:.1f} MiB; on the GPU host: --carried {folder.name}"


def download(folder: Path, python: str, words: Sequence[str]) -> None:
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", python]
    argv += [word for platform in PLATFORMS for word in ("--platform", platform)]
    done = subprocess.run([*argv, "--dest", str(folder), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"pip download: exit code {done.returncode}\n{done.stderr.strip()}")
