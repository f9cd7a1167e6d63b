"""Advisories from files, for hosts that reach no source of them: OSV's dump of PyPI and Debian's security tracker.

Each is named by a variable with its hash, as in `https://mirror.example/all.zip#sha256=...`, so that a scan says which
state of the world it was held against.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from debian.debian_support import NativeVersion
from packaging.version import InvalidVersion, Version

from dlc.build import download
from dlc.buildspec.variant import normal_name
from dlc.core.environment import user_path
from dlc.core.errors import LockError, UsageError
from dlc.images.inspection.facts import Facts, Package
from dlc.images.inspection.scan import Answer, Finding
from dlc.plan.contexts import Pinned

OSV, TRACKER = "DLC_OSV_DUMP", "DLC_DEBIAN_TRACKER_DUMP"
HASH = re.compile(r"sha256=([0-9a-f]{64})")


def named(variable: str, environment: Mapping[str, str], cache: Path, ca: Path | None) -> Path | None:
    """The file that a variable names, downloaded where it is elsewhere; None for no variable.

    Raises UsageError for a value without a hash, LockError for a file that cannot be had or has another hash.
    """
    given = environment.get(variable, "")
    if not given:
        return None
    address, fragment = urldefrag(given)
    match = HASH.fullmatch(fragment)
    if match is None:
        raise UsageError(
            f"{variable}: expected ADDRESS#sha256=HEX, found {given}", "sha256sum says the hash of a file that is here"
        )
    where = address if "://" in address else user_path(address).absolute().as_uri()
    return download.fetch(Pinned(match[1], where), cache, ca) / download.FILE


def of_python(facts: Facts, dump: Path) -> Answer:
    """What OSV's dump of one ecosystem (`all.zip`) says of the Python packages. Raises LockError for another file."""
    installed = {normal_name(package.name): package for package in facts.of_kind("python")}
    found, newest = set(), ""
    try:
        for entry in _entries(dump):
            newest = max(newest, str(entry.get("modified", ""))[:10])
            found |= set(_findings(entry, installed))
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LockError(f"{OSV}: expected OSV's all.zip, found: {error}", "take PyPI/all.zip of OSV's data") from None
    return Answer(f"OSV's dump up to {newest or 'no entry'}", tuple(sorted(found)), len(installed), ())


def _entries(dump: Path) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(dump) as archive:
        for name in archive.namelist():
            yield json.loads(archive.read(name))


def _findings(entry: Mapping[str, Any], installed: Mapping[str, Package]) -> Iterator[Finding]:
    if entry.get("withdrawn"):
        return
    for affected in entry.get("affected", ()):
        about = affected.get("package", {})
        package = installed.get(normal_name(about.get("name", "")))
        if about.get("ecosystem") == "PyPI" and package and _is_affected(package.version, affected):
            fixes = [event["fixed"] for span in affected.get("ranges", ()) for event in span["events"]
                     if "fixed" in event and span.get("type") == "ECOSYSTEM"]  # fmt: skip
            aliases = tuple(sorted(entry.get("aliases", ())))
            yield Finding(normal_name(package.name), package.version, entry["id"], aliases, ", ".join(fixes))


def _is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Whether a version is listed, or in a range: https://ossf.github.io/osv-schema/#evaluation."""
    own = Version(version.partition("+")[0])  # a local version is another build of the same release
    if any(_version(listed) == own for listed in affected.get("versions", ())):
        return True
    return any(_is_in(own, span["events"]) for span in affected.get("ranges", ()) if span.get("type") == "ECOSYSTEM")


def _is_in(own: Version, events: list[Mapping[str, str]]) -> bool:
    inside = False
    for event in sorted(events, key=lambda event: _version(next(iter(event.values()))) or Version("0")):
        for kind, text in event.items():
            at = _version(text) or Version("0")
            if kind == "introduced" and own >= at:
                inside = True
            elif (kind == "fixed" and own >= at) or (kind == "last_affected" and own > at):
                inside = False
    return inside


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def of_debian(facts: Facts, dump: Path) -> Answer:
    """Security updates that the image lacks, by Debian's tracker (`data/json`). Raises LockError for another file."""
    packages = facts.of_kind("debian")
    try:
        known: Mapping[str, Mapping[str, Any]] = json.loads(dump.read_bytes())
        found = {
            Finding(package.source, package.source_version, name, (), str(state["fixed_version"]))
            for package in packages
            for name, advisory in known.get(package.source, {}).items()
            if (state := advisory.get("releases", {}).get(facts.suite, {})).get("status") == "resolved"
            and _lacks(package.source_version, str(state.get("fixed_version", "0")))
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LockError(f"{TRACKER}: expected the tracker's JSON, found: {error}", "take data/json of it") from None
    return Answer(f"Debian's security tracker for {facts.suite}", tuple(sorted(found)), len(packages), ())


def _lacks(installed: str, fixed: str) -> bool:
    """Whether a version is before the fix; the tracker says 0 where the suite never had the fault."""
    return fixed != "0" and bool(NativeVersion(installed) < NativeVersion(fixed))
