"""Installs Debian packages on this host with apt, records which ones are new, and can remove these again."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.core.atomic_files import hold_lock
from dlc.core.errors import HostError, PackageIndexError
from dlc.core.process import run_program

# Debian runs it to know whether a package may start a service.
POLICY = Path("/usr/sbin/policy-rc.d")
UNFINISHED = Path("/var/lib/dpkg/updates")
MARK = "# dlc wrote this file"
# The guard against services. A shell writes and removes it, so that it goes even when dlc is killed.
# A policy-rc.d that an administrator wrote stays.
GUARDED = f"""
policy=$1; shift
if [ ! -e "$policy" ] || grep -qs '^{MARK}' "$policy"; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 143' TERM INT HUP
    printf '#!/bin/sh\\n{MARK}: no package may start a service while dlc installs it.\\nexit 101\\n' >"$policy"
    chmod 755 "$policy"
fi
"$@"
"""
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
# Without a pseudo-terminal dpkg stays in apt's process group, which a signal to dlc ends as a whole.
OPTIONS = ("-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120", "-q")
UPDATE_SECONDS = 300.0
INSTALL_SECONDS = 900.0
# For so long another dlc may install.
LOCK_SECONDS = 3600.0
# For so long dpkg may finish its current package.
GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Donor:
    """A later Debian suite from which hosts of an older `release` take these packages, and nothing else."""

    release: str
    suite: str
    packages: tuple[str, ...]


def read_os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """Return the host's distribution as /etc/os-release states it; empty if there is no such file."""
    if not path.exists():
        return {}
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', path.read_text(errors="replace"), re.MULTILINE)
    return dict(pairs)


def can_install() -> str:
    """Return why packages cannot be installed here, or the empty string."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("apt-get") is None:
        return "no apt-get on this host"
    return ""


def install_packages(names: Sequence[str], work: Path, donor: Donor | None = None) -> None:
    """Install packages without recommended ones and without starting any service.

    `work` is a folder for apt's lists of the donor suite and for the list of new packages. One process at a time.
    Raises HostError if nothing can be installed, PackageIndexError if apt fails.
    """
    if reason := can_install():
        raise HostError(f"cannot install {', '.join(names)}: {reason}", f"as root: apt-get install {' '.join(names)}")
    print(f"installing {', '.join(names)} (Debian packages)", file=sys.stderr, flush=True)
    work.mkdir(parents=True, exist_ok=True)
    with hold_lock(work / "lock", LOCK_SECONDS):
        remove_guard()
        options = _make_donor_options(work, donor) if donor and _needs_donor(donor, names) else []
        _run_apt([*options, "update"], UPDATE_SECONDS)
        # An earlier installation was interrupted.
        if UNFINISHED.is_dir() and any(UNFINISHED.iterdir()):
            _run_guarded(["dpkg", "--configure", "-a"])
        wanted = [*options, "-y", "--no-install-recommends", "install", *names]
        _record_packages(work, parse_new_packages(_run_apt(["--simulate", *wanted], UPDATE_SECONDS)))
        _run_guarded(["apt-get", *OPTIONS, *wanted])


def list_brought(work: Path) -> list[str]:
    """List the packages that `install_packages` added to this host and that are still installed."""
    recorded = _record_path(work).read_text().split() if _record_path(work).exists() else []
    if not recorded or shutil.which("dpkg-query") is None:
        return []
    form = "${Package} ${db:Status-Status}\\n"
    lines = run_program(["dpkg-query", "--show", "--showformat", form, *recorded], env=ENVIRONMENT, check=False).stdout
    present = {line.split()[0] for line in lines.splitlines() if line.split()[1:] not in ([], ["not-installed"])}
    return sorted(present & set(recorded))


def list_dependents(names: Sequence[str]) -> list[str]:
    """List the packages besides `names` that apt would remove together with them."""
    return sorted(set(parse_removed_packages(_run_apt(["--simulate", "purge", *names], UPDATE_SECONDS))) - set(names))


def remove_packages(names: Sequence[str], work: Path) -> None:
    """Remove packages with their configuration. Raises PackageIndexError with apt's message."""
    with hold_lock(work / "lock", LOCK_SECONDS):
        remove_guard()
        _run_guarded(["apt-get", *OPTIONS, "-y", "purge", *names])
        _record_path(work).unlink(missing_ok=True)


def parse_new_packages(simulated: str) -> list[str]:
    """Return the packages that `apt-get --simulate install` would add, without those that it would upgrade."""
    return re.findall(r"^Inst (\S+) \(", simulated, re.MULTILINE)


def parse_removed_packages(simulated: str) -> list[str]:
    """Return the packages that `apt-get --simulate purge` would remove."""
    return re.findall(r"^(?:Remv|Purg) ([^\s:]+)", simulated, re.MULTILINE)


def remove_guard() -> None:
    """Remove a guard whose shell was killed; never a file that an administrator wrote."""
    try:
        if MARK in POLICY.read_text(errors="replace"):
            POLICY.unlink()
    except OSError:
        return


def _run_guarded(argv: Sequence[str]) -> None:
    """Run a command that installs or removes packages; no service starts."""
    try:
        _run_checked(["sh", "-c", GUARDED, "dlc-guard", str(POLICY), *argv], INSTALL_SECONDS)
    finally:
        remove_guard()


def _run_apt(words: Sequence[str], seconds: float) -> str:
    return _run_checked(["apt-get", *OPTIONS, *words], seconds)


def _run_checked(argv: Sequence[str], seconds: float) -> str:
    done = run_program(argv, env=ENVIRONMENT, check=False, timeout=seconds, grace=GRACE_SECONDS)
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines()
        words = "; ".join([line for line in lines if line.startswith("E:")] or lines[-5:])
        command = " ".join(argv[argv.index(str(POLICY)) + 1 :] if str(POLICY) in argv else argv)
        raise PackageIndexError(
            f"{command}: exit code {done.returncode}: {words}", "check that apt reaches its mirrors"
        )
    return done.stdout


def _record_path(work: Path) -> Path:
    return work / "installed"


def _record_packages(work: Path, names: Sequence[str]) -> None:
    """Add packages to the list. It is written before the installation, so that a kill loses nothing."""
    known = _record_path(work).read_text().split() if _record_path(work).exists() else []
    _record_path(work).write_text("".join(f"{name}\n" for name in sorted({*known, *names})))


def _needs_donor(donor: Donor, names: Sequence[str]) -> bool:
    return read_os_release().get("VERSION_CODENAME") == donor.release and any(name in donor.packages for name in names)


def find_mirror(releases: Collection[str]) -> str:
    """Return the address from which this host's apt gets one of these releases; empty if it gets none of them."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    known = [line.split() for line in run_program(words).stdout.splitlines()]
    return min((words[0] for words in known if words[1:] and words[1] in releases), default="")


def _make_donor_options(work: Path, donor: Donor) -> list[str]:
    """Return apt options that add the donor suite, pinned so that only its own packages come from it.

    The files are in `work`: the host's apt set-up is not changed.
    """
    site = find_mirror([donor.release])
    if not site:
        raise HostError(f"apt has no source for Debian {donor.release}", "add one to /etc/apt/sources.list")
    (work / "sources.list").write_text("".join(f"deb {site} {suite} main\n" for suite in (donor.release, donor.suite)))
    (work / "preferences").write_text(
        f"Package: *\nPin: release n={donor.suite}\nPin-Priority: 50\n\n"
        f"Package: {' '.join(donor.packages)}\nPin: release n={donor.suite}\nPin-Priority: 990\n"
    )
    for folder in ("lists/partial", "sources.list.d", "preferences.d"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": work / "sources.list.d",
        "Dir::Etc::Preferences": work / "preferences",
        "Dir::Etc::PreferencesParts": work / "preferences.d",
        "Dir::State::Lists": work / "lists",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
