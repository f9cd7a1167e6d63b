"""Asks apt which packages, in which versions, the images of a suite would get from Debian's mirrors today."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlc.buildspec import cuda_efa
from dlc.buildspec.variant import Variant
from dlc.core.errors import LockError
from dlc.core.process import run
from dlc.debian import apt
from dlc.debian.suites import arguments

INSTALLED = re.compile(r"^Inst (\S+) \((\S+) ", re.MULTILINE)
SECONDS = 600.0


def wanted(variants: Iterable[Variant]) -> dict[str, list[str]]:
    """Suite -> the Debian packages that its images name, those that only compile included."""
    names: dict[str, set[str]] = {}
    for variant in variants:
        settings = variant.settings
        named = (
            *settings.base.os_packages,
            *settings.os_packages,
            *cuda_efa.build_packages(settings),
            *cuda_efa.debian_packages(settings.efa),
        )
        names.setdefault(variant.suite, set()).update(named)
    return {suite: sorted(found) for suite, found in names.items()}


def resolve(suite: str, names: Sequence[str], work: Path) -> dict[str, str]:
    """Package -> version of everything that a minimal Debian with these packages holds; nothing is installed.

    `work` is a folder for the apt lists where mmdebstrap has to be installed first. Raises LockError with apt's words.
    """
    if shutil.which("mmdebstrap") is None:
        apt.install(["mmdebstrap"], work)
    program, *rest = arguments(suite, names)
    done = run([program, "--simulate", "--verbose", *rest, "/dev/null"], check=False, timeout=SECONDS)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [done.stderr[-500:]]
        raise LockError(f"{suite}: {'; '.join(errors)}", "name packages of this suite, and check that apt has a mirror")
    return dict(INSTALLED.findall(done.stdout + done.stderr))
