"""The Debian suites that images are made of, their recorded versions, and the mmdebstrap command of the base. Pure."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from dlc.core.checkout import Tree, read_text
from dlc.core.errors import LockError
from dlc.core.platforms import split_suffix

HEADING = """\
# Debian packages of the {suite} images and of what compiles for them: one `name=version` per line.
# Builds take these versions while Debian's mirrors have them. A mirror drops a version when an update replaces it:
# the build then installs the newer one and says so. `dlc update debian --write` makes this file anew.
"""

# A comment, nothing, or a package with a version as Debian's policy has them.
LINE = re.compile(r"#.*||[a-z0-9][a-z0-9+.-]+=([0-9]+:)?[0-9][A-Za-z0-9.+~:-]*")
# Documentation and translations stay out, now and for packages installed later; licences stay in.
# dpkg skips fsync: the output of an interrupted step is discarded anyway.
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
# mmdebstrap copies them from the host that it runs on. A container gets its own from the engine, and an image with the
# host's would be another one on each host.
OF_THE_HOST = ("hostname", "resolv.conf")
# Steps mount the folder, which Debian has for x86-64 alone.
LIB64_HOOK = 'mkdir -p "$1/usr/lib64" && ln -s usr/lib64 "$1/lib64"'
# No file in the tar has a later time. 1980 is the first year that zip files know.
EPOCH = 315532800


@dataclass(frozen=True)
class Suite:
    """One Debian release."""

    name: str
    # Level of the newest wheels that its C library loads, as in manylinux_2_36.
    glibc: str
    # Last day of security updates, long-term support included.
    until: date
    # Whether /bin and /lib are links into /usr from the first package on.
    merged_usr: bool


SUITES = {
    suite.name: suite
    for suite in (
        Suite("bullseye", glibc="2.31", until=date(2026, 8, 31), merged_usr=False),
        Suite("bookworm", glibc="2.36", until=date(2028, 6, 30), merged_usr=True),
        # It has 2.41; uv knows no later wheels than 2.40.
        Suite("trixie", glibc="2.40", until=date(2030, 6, 30), merged_usr=True),
    )
}


def is_system(name: str) -> bool:
    """Tell whether a name is that of a suite, with or without a platform, such as `bookworm-arm64`."""
    return split_suffix(name)[0] in SUITES


def find_suite(system: str) -> Suite:
    """Return the facts about a suite. Raises LockError for a suite that the table does not have."""
    name, _ = split_suffix(system)
    if name not in SUITES:
        raise LockError(
            f"suite {name}: expected one of {', '.join(SUITES)}, which dlc knows",
            "name one of these; in a checkout, src/dlc/debian/suites.py takes a new one",
        )
    return SUITES[name]


def versions_folder(suite: str) -> str:
    """Return the path of the folder with the list of a suite, or of `bookworm-arm64`: a build's context `debian`."""
    return f"docker/debian/{suite}"


def versions_path(suite: str) -> str:
    """Return the path of the list itself."""
    return f"{versions_folder(suite)}/versions.txt"


def read_recorded(tree: Tree, suite: str) -> dict[str, str]:
    """Map packages to versions.

    Raises LockError if the suite has no list, or a list with a line of a merge conflict.
    """
    if versions_path(suite) not in tree:
        raise LockError(
            f"{versions_path(suite)}: expected the Debian versions of this suite, found no file",
            "dlc update debian --write",
        )
    listing = read_text(tree, versions_path(suite))
    for number, line in enumerate(listing.splitlines(), 1):
        if not LINE.fullmatch(line):
            raise LockError(
                f"{versions_path(suite)}:{number}: expected NAME=VERSION, found {line[:80]!r}",
                "correct the line, or remove the file and run dlc update debian --write",
            )
    return parse_versions(listing)


def parse_versions(listing: str) -> dict[str, str]:
    """Map packages to versions, from the text of a list."""
    lines = [line.partition("=") for line in listing.splitlines() if line and not line.startswith("#")]
    return {name: version for name, _, version in lines}


def format_versions(suite: str, found: Mapping[str, str]) -> str:
    """Return the list as its file has it."""
    return HEADING.format(suite=suite) + "".join(f"{name}={found[name]}\n" for name in sorted(found))


def make_preferences(found: Mapping[str, str]) -> str:
    """Return the list as apt preferences. Above 1000: apt goes back to the version even if it is older than another."""
    stanzas = [f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n" for name, version in found.items()]
    return "\n".join(stanzas)


def mmdebstrap_command(suite: str, packages: Sequence[str] = ()) -> list[str]:
    """Return the mmdebstrap command without its target; `packages` are installed on top of the minimum.

    Raises LockError for a suite that dlc does not know.
    """
    name, platform = split_suffix(suite)
    include = sorted({"ca-certificates", *packages})
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    if find_suite(suite).merged_usr:
        # Merged from the start: else Debian installs usrmerge to do it, and with it 55 MB of Perl.
        include.append("usr-is-merged")
        options.append(f"--hook-dir={MERGED_USR_HOOK}")
    options += [f'--customize-hook=install -m 644 /dev/null "$1/etc/{name}"' for name in OF_THE_HOST]
    if platform.suffix:
        options += [f"--architectures={platform.architecture}", f"--customize-hook={LIB64_HOOK}"]
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(include)}", *options, name]


def pin_arguments(file: Path) -> list[str]:
    """Return further arguments: apt takes the versions that the preferences in `file` name. The file is not kept."""
    inside = f"/etc/apt/preferences.d/{file.name}"
    return [
        f"--setup-hook=copy-in {shlex.quote(str(file))} /etc/apt/preferences.d",
        f'--customize-hook=rm "$1{inside}"',
    ]


def base_recipe(suite: str, recorded: Mapping[str, str]) -> str:
    """Return one line that names all that the tar is made from: the command and the recorded versions."""
    digest = hashlib.sha256(make_preferences(recorded).encode()).hexdigest()[:12]
    return f"{shlex.join(mmdebstrap_command(suite))} # versions {digest}, epoch {EPOCH}"
