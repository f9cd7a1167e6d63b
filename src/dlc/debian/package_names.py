"""Asks apt which packages a Debian suite has. Nothing is installed, and root is not needed: the lists are dlc's own."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from dlc.core.atomic_files import hold_lock
from dlc.core.errors import PackageIndexError
from dlc.core.platforms import split_suffix
from dlc.core.process import run_program
from dlc.debian.apt import find_mirror
from dlc.debian.suites import SUITES

# A package comes into a suite, or leaves it, with its point releases.
FRESH_SECONDS = 24 * 3600.0
ASK_SECONDS = 120.0
OTHER_SECONDS = 300.0
# What apt says of a name that is no package, and of one that several packages provide.
UNKNOWN = re.compile(r"^E: (?:Unable to locate package (\S+)|Package '(\S+)' has no installation candidate)$", re.M)
STAMP = "asked"


def find_unknown(system: str, names: Sequence[str], work: Path) -> dict[str, str]:
    """Map each name that is no package of the suite to the nearest package; an empty text if none is near.

    `work` is a folder for apt's lists of this system, such as `bookworm-arm64`; they are kept for FRESH_SECONDS.
    Raises PackageIndexError if the lists cannot be had.
    """
    if shutil.which("apt-get") is None:
        raise PackageIndexError("this host has no apt-get, which reads Debian's lists")
    if not (mirror := find_mirror(SUITES)):
        raise PackageIndexError("apt of this host has no source of Debian's packages")
    for folder in ("lists/partial", "cache", "parts"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    with hold_lock(work, OTHER_SECONDS):
        options = _make_options(system, mirror, work)
        _update_lists(options, work)
        said = run_program(["apt-get", *options, "--simulate", "install", *names], env={"LC_ALL": "C"}, check=False)
        unknown = [first or second for first, second in UNKNOWN.findall(said.stderr)]
        return {name: _find_near(name, options) for name in unknown}


def _make_options(system: str, mirror: str, work: Path) -> list[str]:
    """Return apt options for a system without any package, in a folder of its own."""
    suite, platform = split_suffix(system)
    # Trusted, because nothing is installed from here and a host may lack Debian's keys: a build checks signatures.
    (work / "sources.list").write_text(f"deb [trusted=yes] {mirror} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": work / "parts",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": work / "parts",
        "Dir::State::Lists": work / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": work / "cache",
        "APT::Architecture": platform.architecture,
        "APT::Architectures": platform.architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return ["-q", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]


def _update_lists(options: Sequence[str], work: Path) -> None:
    """Bring the lists up to date, unless that was done lately. Raises PackageIndexError if there are none then."""
    stamp = work / STAMP
    if stamp.exists() and time.time() - stamp.stat().st_mtime < FRESH_SECONDS:
        return
    words = ["apt-get", *options, "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "update", "-qq"]
    done = run_program(words, env={"LC_ALL": "C"}, check=False, timeout=ASK_SECONDS)
    faults = re.findall(r"^(?:E|W|Err\S*):? *(.*)$", done.stderr, re.MULTILINE)
    if not list((work / "lists").glob("*Packages*")):
        raise PackageIndexError(faults[0] if faults else f"apt-get update ended with {done.returncode}")
    if not (done.returncode or faults):
        stamp.touch()


def _find_near(name: str, options: Sequence[str]) -> str:
    import difflib

    # Those that begin alike: comparing with all 68,000 takes seconds.
    found = run_program(["apt-cache", *options[1:], "pkgnames", name[:1]], env={"LC_ALL": "C"}, check=False).stdout
    return next(iter(difflib.get_close_matches(name, found.split(), 1, 0.75)), "")
