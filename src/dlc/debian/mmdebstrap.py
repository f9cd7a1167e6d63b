"""The mmdebstrap command that makes our own base. It is part of content keys, so it is a value."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlc.debian import suites
from dlc.debian.recorded import preferences

# Documentation and translations stay out, now and for packages installed later; licences stay in.
# dpkg waits for no disk: what a step wrote that was cut short is thrown away.
DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/lintian/*",
)
MERGED_USR_HOOK = "/usr/share/mmdebstrap/hooks/merged-usr"
# No file in the tar has a later time. 1980 is the first year that zip files know.
EPOCH = 315532800


def arguments(suite: str, packages: Sequence[str] = ()) -> list[str]:
    """The mmdebstrap command without its target; `packages` are installed on top of the minimum.

    Raises LockError for a suite that dlc does not know.
    """
    include = sorted({"ca-certificates", *packages})
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    if suites.suite(suite).merged_usr:
        # Merged from the start: else Debian installs usrmerge to do it, and with it 55 MB of Perl.
        include.append("usr-is-merged")
        options.append(f"--hook-dir={MERGED_USR_HOOK}")
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(include)}", *options, suite]


def holding(file: Path) -> list[str]:
    """Further arguments: apt takes the versions that the preferences in `file` name. The file is not kept."""
    inside = f"/etc/apt/preferences.d/{file.name}"
    return [
        f"--setup-hook=copy-in {shlex.quote(str(file))} /etc/apt/preferences.d",
        f'--customize-hook=rm "$1{inside}"',
    ]


def recipe(suite: str, recorded: Mapping[str, str]) -> str:
    """One line that names all that the tar is made from: the command and the recorded versions."""
    digest = hashlib.sha256(preferences(recorded).encode()).hexdigest()[:12]
    return f"{' '.join(arguments(suite))} # versions {digest}, epoch {EPOCH}"
