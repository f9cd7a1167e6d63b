"""What our own base is made of: the mmdebstrap command, apart from running it, because it is part of content keys."""

from __future__ import annotations

# Documentation and translations stay out, now and for packages installed later; licences stay in.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/lintian/*",
)
# Releases from before Debian merged /bin and /lib into /usr.
SPLIT_USR_SUITES = ("bullseye",)
MERGED_USR_HOOK = "/usr/share/mmdebstrap/hooks/merged-usr"


def arguments(suite: str) -> list[str]:
    """The mmdebstrap command without its target."""
    include = ["ca-certificates"]
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    if suite not in SPLIT_USR_SUITES:
        # Merged from the start: else Debian installs usrmerge to do it, and with it 55 MB of Perl.
        include.append("usr-is-merged")
        options.append(f"--hook-dir={MERGED_USR_HOOK}")
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(include)}", *options, suite]
