"""Installs Docker Engine, buildx, compose and mmdebstrap from the distribution's own packages.

Debian 12's docker.io has no buildx, so there the four Docker packages come from Debian 13: they need only
libc6 >= 2.34. The extra release is given to apt for these calls alone, from files in dlc's cache: the host's apt
set-up is not changed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dlc.core.errors import EngineError
from dlc.core.process import run

DOCKER_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "iptables")
UBUNTU_PACKAGES = ("docker.io", "docker-buildx", "docker-compose-v2", "iptables")
PINNED_PACKAGES = DOCKER_PACKAGES[:4]
DONOR_SUITE = "trixie"
MANUAL_REMEDY = "install Docker Engine with its buildx plug-in and start it, or set DOCKER_HOST to one that runs"


def os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The host's distribution as /etc/os-release states it; empty where there is no such file."""
    if not path.exists():
        return {}
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', path.read_text(), re.MULTILINE)
    return dict(pairs)


def can_install() -> str:
    """Why packages cannot be installed here, or the empty string."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("apt-get") is None:
        return "no apt-get on this host"
    return ""


def install(names: Sequence[str], work: Path) -> None:
    """Install Debian packages without recommended ones and without starting any service.

    `work` is a folder for the apt lists of the donor release. Raises EngineError where that cannot be done.
    """
    if reason := can_install():
        raise EngineError(f"cannot install {', '.join(names)}: {reason}", MANUAL_REMEDY)
    options = _donor_options(work) if _needs_donor(names) else []
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    print(f"installing {', '.join(names)} (Debian packages)", flush=True)
    with _no_service_starts():
        run(["apt-get", *options, "-q", "update"], env=environment, timeout=300)
        argv = ["apt-get", *options, "-q", "-y", "--no-install-recommends", "install", *names]
        run(argv, env=environment, timeout=900)


def engine_packages() -> tuple[str, ...]:
    """The packages that make a Docker engine with buildx and compose on this host."""
    return UBUNTU_PACKAGES if os_release().get("ID") == "ubuntu" else DOCKER_PACKAGES


def _needs_donor(names: Sequence[str]) -> bool:
    release = os_release()
    return release.get("VERSION_CODENAME") == "bookworm" and any(name in PINNED_PACKAGES for name in names)


def _donor_options(work: Path) -> list[str]:
    """apt options that add the donor suite, pinned so that only the Docker packages come from it."""
    work.mkdir(parents=True, exist_ok=True)
    known = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]).stdout
    codename = os_release()["VERSION_CODENAME"]
    sites = {line.split()[0] for line in known.splitlines() if line.split()[1:] == [codename]}
    if not sites:
        raise EngineError(f"apt has no source for Debian {codename}", MANUAL_REMEDY)
    (work / "sources.list").write_text(
        "".join(f"deb {site} {suite} main\n" for site in sorted(sites)[:1] for suite in (codename, DONOR_SUITE))
    )
    (work / "preferences").write_text(
        f"Package: *\nPin: release n={DONOR_SUITE}\nPin-Priority: 50\n\n"
        f"Package: {' '.join(PINNED_PACKAGES)}\nPin: release n={DONOR_SUITE}\nPin-Priority: 990\n"
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


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep a package's scripts from starting a daemon on the host's default socket (Debian's policy-rc.d)."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    with tempfile.NamedTemporaryFile("w", dir=policy.parent, delete=False) as draft:
        draft.write("#!/bin/sh\nexit 101\n")
    Path(draft.name).chmod(0o755)
    Path(draft.name).rename(policy)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
