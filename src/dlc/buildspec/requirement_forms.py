"""The forms of a Python requirement: a bare name, one version, a range, or an address of a wheel or sources. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from packaging.requirements import Requirement

from dlc.buildspec.versions import satisfies

EXACT = re.compile(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?==([A-Za-z0-9.+!]+)")
BARE = re.compile(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?")
WHEEL, ARCHIVES = ".whl", (".tar.gz", ".zip")
GIT = "git+"
PLAIN, SAFE = ("http", "file"), ("https", "git+https", "git+ssh", "git+file")
HASH = re.compile(r"sha256=[0-9a-f]{64}")


def is_bare(requirement: str) -> bool:
    """Tell whether a requirement is a name alone, perhaps with extras: any version will do."""
    return BARE.fullmatch(requirement) is not None


def find_exact_version(requirement: str) -> str:
    """Return VERSION of NAME==VERSION; empty for a bare name, a range and an address."""
    found = EXACT.fullmatch(requirement)
    return found[1] if found else ""


def find_address(requirement: str) -> str:
    """Return ADDRESS of NAME @ ADDRESS; empty for a requirement without an address."""
    return Requirement(requirement).url or "" if "@" in requirement else ""


def is_satisfied(requirement: str, version: str) -> bool:
    """Tell whether a version fits a requirement. Each version fits an address: its file decides."""
    if exact := find_exact_version(requirement):
        return exact == version
    clauses = str(Requirement(requirement).specifier)
    return not clauses or satisfies(version, clauses)


def explain_address(address: str) -> str:
    """Tell what is wrong with the address of a requirement; empty if `dlc lock` takes it.

    A password would stand in dlc.yml and in the lock. What comes over http is believed only if its hash is known.
    """
    parts = urlsplit(address)
    if parts.scheme not in (*PLAIN, *SAFE):
        return "an address of https, file, git+https, git+ssh or git+file"
    if parts.password is not None or (parts.username and parts.scheme != "git+ssh"):
        return "an address without a password: git's own helpers and ~/.netrc keep it"
    if parts.scheme.startswith(GIT):
        return ""
    if not parts.path.endswith((WHEEL, *ARCHIVES)):
        return "the address of a wheel (.whl) or of sources (.tar.gz, .zip), or git+https://HOST/REPOSITORY@COMMIT"
    if parts.scheme == "http" and not HASH.search(parts.fragment):
        return "https, or http with the file's hash: ...#sha256=64 HEXADECIMAL DIGITS"
    return ""
