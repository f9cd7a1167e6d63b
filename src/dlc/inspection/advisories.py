"""Advisories about an image: asked of pip-audit and apt or read from dumps, and judged by the exceptions.

A dump is a file for hosts that reach no source of advisories: OSV's of PyPI, and Debian's security tracker. A variable
names it with its hash, as in `https://mirror.example/all.zip#sha256=...`, so that a scan says which state of the world
it was held against.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from debian.debian_support import NativeVersion
from packaging.version import InvalidVersion, Version

from dlc.buildspec.models import ScanException, ScanExceptions
from dlc.buildspec.variant import normal_name
from dlc.checked_yaml.problems import raise_report
from dlc.checked_yaml.validation import validate_node
from dlc.checked_yaml.yaml_layers import parse_yaml
from dlc.core.atomic_files import scratch_folder
from dlc.core.checkout import PROJECT_EXCEPTIONS, Tree, read_text
from dlc.core.environment import user_path
from dlc.core.errors import LockError, SpecError, UsageError
from dlc.core.process import Completed, last_lines, run_program
from dlc.engine import images
from dlc.engine.docker_client import Engine
from dlc.image_build import download
from dlc.inspection.facts import Facts, Package
from dlc.plan.contexts import Pinned

EXCEPTIONS = "buildspec/scan-exceptions.yml"
# `python -m pip_audit`, which takes the authorities that dlc takes.
PIP_AUDIT = """import runpy; from dlc.core import tls
tls.relax_urllib3()
runpy.run_module("pip_audit", run_name="__main__", alter_sys=True)
"""
PIP_AUDIT_SECONDS = 900.0
APT_SECONDS = 600.0
# A local version (2.13.0+cpu) is another build of the same release, which is what advisories are about.
LOCAL_VERSION = re.compile(r"\+.*")
# `Inst libssl3 [3.0.1-1] (3.0.2-1 Debian-Security:12/stable-security [amd64])`
PENDING = re.compile(r"^Inst (\S+) \[([^\]]+)\] \((\S+) ([^)]*)\)", re.MULTILINE)
# The CA bundle comes on stdin, because the engine may be on another host. It may be empty.
APT_SCRIPT = """set -e
cat > /run/dlc-ca.pem
if [ -s /run/dlc-ca.pem ]; then ca='-o Acquire::https::CAInfo=/run/dlc-ca.pem'; fi
apt-get -qq -o Acquire::Retries=3 $ca update >&2
apt-get -qq --simulate upgrade
"""
OSV, TRACKER = "DLC_OSV_DUMP", "DLC_DEBIAN_TRACKER_DUMP"
HASH = re.compile(r"sha256=([0-9a-f]{64})(?:&day=(\d{4}-\d{2}-\d{2}))?")
# The day of data that say none.
NO_DAY = "unknown"
PYPI = "PyPI"


@dataclass(frozen=True, order=True)
class Finding:
    """An advisory that concerns a package of the image. `fix`: versions without the fault, if there are any."""

    package: str
    version: str
    # Its identifier, such as PYSEC-2026-12.
    advisory: str
    # Other identifiers of the same, such as CVE-2026-1.
    aliases: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Answer:
    """What one source of advisories said. `unanswered`: why it gave no answer, else empty."""

    source: str
    findings: tuple[Finding, ...]
    # How many packages were asked about.
    asked: int
    # Packages among them that the source does not know.
    unknown: tuple[str, ...]
    unanswered: str = ""
    # The day of its data: empty if it was asked for today's, NO_DAY if they say none.
    day: str = ""

    @property
    def coverage(self) -> str:
        """Return for how many packages it speaks, and of which day."""
        if self.day:
            # A dump names packages with advisories only.
            day = "of an unknown day" if self.day == NO_DAY else f"of {self.day}"
            return f"{self.asked} packages compared with data {day}"
        return f"{self.asked - len(self.unknown)} of {self.asked} packages known"


@dataclass(frozen=True)
class Verdict:
    """Open findings, excepted and expired ones with their exceptions, and exceptions that match nothing."""

    open: tuple[Finding, ...]
    excepted: tuple[tuple[Finding, ScanException], ...]
    expired: tuple[tuple[Finding, ScanException], ...]
    unused: tuple[ScanException, ...]

    def list_states(self) -> Iterator[tuple[str, Finding, ScanException | None]]:
        """Yield each finding with its state, which is open, expired or excepted, and with its exception."""
        yield from (("open", finding, None) for finding in self.open)
        yield from (("expired", *pair) for pair in self.expired)
        yield from (("excepted", *pair) for pair in self.excepted)

    @property
    def against(self) -> tuple[Finding, ...]:
        """Return what no valid exception covers."""
        return (*self.open, *(finding for finding, _ in self.expired))


def judge_findings(findings: Sequence[Finding], exceptions: Sequence[ScanException], today: date) -> Verdict:
    """Compare findings with exceptions. An exception is valid until the end of the day `expires`."""
    pairs = [(finding, _find_exception(finding, exceptions)) for finding in sorted(findings)]
    used = [exception for _, exception in pairs if exception]
    late = [(finding, e) for finding, e in pairs if e and date.fromisoformat(e.expires) < today]
    return Verdict(
        open=tuple(finding for finding, exception in pairs if exception is None),
        excepted=tuple((finding, e) for finding, e in pairs if e and (finding, e) not in late),
        expired=tuple(late),
        unused=tuple(exception for exception in exceptions if exception not in used),
    )


def _find_exception(finding: Finding, exceptions: Sequence[ScanException]) -> ScanException | None:
    names = {finding.advisory, *finding.aliases}
    return next((e for e in exceptions if e.advisory in names and e.package in ("", finding.package)), None)


def read_exceptions(tree: Tree) -> tuple[ScanException, ...]:
    """Read the recipes' exceptions and the project's; no file means no exceptions.

    Raises SpecError with file:line:col of every mistake.
    """
    files = [path for path in (EXCEPTIONS, PROJECT_EXCEPTIONS) if path in tree]
    return tuple(exception for path in files for exception in _read_exceptions(tree, path))


def _read_exceptions(tree: Tree, path: str) -> tuple[ScanException, ...]:
    node, problems = parse_yaml(read_text(tree, path), path)
    raise_report(problems)
    if node is None:
        raise SpecError(f"{path}: expected YAML")
    found, problems = validate_node(ScanExceptions, node)
    raise_report(problems)
    return found.exceptions if found else ()


def ask_pip_audit(facts: Facts, ca: Path | None) -> Answer:
    """Ask the package index for advisories. If it does not answer, the answer is `unanswered`, not a clean image."""
    if importlib.util.find_spec("pip_audit") is None:
        raise UsageError("dlc scan needs pip-audit, which this Python does not have", "pip install pip-audit")
    packages = {p.name: LOCAL_VERSION.sub("", p.version) for p in facts.of_kind("python")}
    with scratch_folder("dlc-scan-") as folder:
        listed = folder / "requirements.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in packages.items()))
        argv = [sys.executable, "-c", PIP_AUDIT, "--requirement", str(listed), "--no-deps", "--disable-pip",
                "--format", "json", "--desc", "off", "--progress-spinner", "off"]  # fmt: skip
        # pip-audit uses requests, which reads only this variable.
        environment = {"REQUESTS_CA_BUNDLE": str(ca)} if ca else None
        done = run_program(argv, env=environment, check=False, timeout=PIP_AUDIT_SECONDS)
    return read_pip_audit(done, len(packages))


def read_pip_audit(done: Completed, asked: int) -> Answer:
    """Read pip-audit's JSON; its exit code is 1 both for findings and for failure. Pure."""
    source = "the package index's advisories (pip-audit)"
    try:
        rows = list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError, TypeError):
        return Answer(source, (), asked, (), last_lines(done.stderr, 1) or "pip-audit printed nothing")
    unknown = tuple(sorted(row["name"] for row in rows if "skip_reason" in row))
    findings = tuple(
        Finding(normal_name(row["name"]), row["version"], found["id"], tuple(found.get("aliases", ())),
                ", ".join(found["fix_versions"]))
        for row in rows for found in row.get("vulns", ())
    )  # fmt: skip
    unanswered = (
        "the index answered for none of the packages: offline, or without advisories" if len(unknown) == asked else ""
    )
    return Answer(source, findings, asked, unknown, unanswered)


def ask_apt(engine: Engine, facts: Facts, proxies: Mapping[str, str], ca: Path | None) -> Answer:
    """Ask the image's own Debian sources for security updates that it lacks; apt runs in a container of the image."""
    words = ["--interactive", "--user", "root", "--entrypoint", "/bin/sh"]
    for name in proxies:
        # The value is in the client's environment and in no argv.
        words += ["--env", name]
    given = ca.read_text(errors="replace") if ca else ""
    done = images.run_container(
        engine, *words, facts.ref, "-c", APT_SCRIPT, env=proxies, stdin=given, timeout=APT_SECONDS
    )
    return read_apt(done, len(facts.of_kind("debian")))


def read_apt(done: Completed, asked: int) -> Answer:
    """Read what apt would upgrade from a security archive. Pure."""
    source = "Debian security updates (apt)"
    if done.returncode:
        return Answer(
            source, (), asked, (), last_lines(done.stderr, 1) or f"apt-get ended with exit code {done.returncode}"
        )
    findings = tuple(
        Finding(name, version, f"{name}-update", (), newer)
        for name, version, newer, origin in PENDING.findall(done.stdout) if "security" in origin.lower()
    )  # fmt: skip
    return Answer(source, findings, asked, ())


def fetch_dump(variable: str, environment: Mapping[str, str], cache: Path, ca: Path | None) -> Path | None:
    """Return the file that a variable names, downloaded if it is elsewhere; None for no variable.

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


def search_osv_dump(facts: Facts, dump: Path) -> Answer:
    """Search OSV's dump of PyPI (`all.zip`) for the Python packages.

    Raises LockError for another file; the dump of each ecosystem has this name.
    """
    installed = {normal_name(package.name): package for package in facts.of_kind("python")}
    found, newest, ecosystems = set(), date.min, Counter[str]()
    try:
        for entry in _osv_entries(dump):
            newest = max(newest, date.fromisoformat(str(entry["modified"])[:10]))
            # An advisory about several ecosystems is in the dump of each.
            ecosystems.update(
                {str(affected.get("package", {}).get("ecosystem")) for affected in entry.get("affected", ())}
            )
            found |= set(_osv_findings(entry, installed))
        if not ecosystems or ecosystems[PYPI] < max(ecosystems.values()):
            raise ValueError(f"the dump of {ecosystems.most_common(1)[0][0]}" if ecosystems else "no advisory")
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LockError(
            f"{OSV}: expected OSV's all.zip of PyPI, found: {error}", "take PyPI/all.zip of OSV's data"
        ) from None
    return Answer(f"OSV's dump up to {newest}", tuple(sorted(found)), len(installed), (), day=str(newest))


def _osv_entries(dump: Path) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(dump) as archive:
        for name in archive.namelist():
            yield json.loads(archive.read(name))


def _osv_findings(entry: Mapping[str, Any], installed: Mapping[str, Package]) -> Iterator[Finding]:
    if entry.get("withdrawn"):
        return
    for affected in entry.get("affected", ()):
        about = affected.get("package", {})
        package = installed.get(normal_name(about.get("name", "")))
        if about.get("ecosystem") == PYPI and package and _is_affected(package.version, affected):
            fixes = [event["fixed"] for span in affected.get("ranges", ()) for event in span["events"]
                     if "fixed" in event and span.get("type") == "ECOSYSTEM"]  # fmt: skip
            aliases = tuple(sorted(entry.get("aliases", ())))
            yield Finding(normal_name(package.name), package.version, entry["id"], aliases, ", ".join(fixes))


def _is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Tell whether a version is listed, or in a range: https://ossf.github.io/osv-schema/#evaluation."""
    # A local version is another build of the same release.
    own = Version(version.partition("+")[0])
    if any(_parse_version(listed) == own for listed in affected.get("versions", ())):
        return True
    return any(
        _is_in_range(own, span["events"]) for span in affected.get("ranges", ()) if span.get("type") == "ECOSYSTEM"
    )


def _is_in_range(own: Version, events: list[Mapping[str, str]]) -> bool:
    inside = False
    for event in sorted(events, key=lambda event: _parse_version(next(iter(event.values()))) or Version("0")):
        for kind, version in event.items():
            at = _parse_version(version) or Version("0")
            if kind == "introduced" and own >= at:
                inside = True
            elif (kind == "fixed" and own >= at) or (kind == "last_affected" and own > at):
                inside = False
    return inside


def _parse_version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def read_stated_day(variable: str, environment: Mapping[str, str]) -> str:
    """Return the day that a variable states of its dump, as in `#sha256=HEX&day=2026-11-20`; NO_DAY for none.

    Raises UsageError for a day that there is not.
    """
    match = HASH.fullmatch(urldefrag(environment.get(variable, "")).fragment)
    day = match[2] if match and match[2] else ""
    try:
        return str(date.fromisoformat(day)) if day else NO_DAY
    except ValueError:
        raise UsageError(f"{variable}: expected &day=YYYY-MM-DD, found {day}", "the day when it was taken") from None


def search_tracker_dump(facts: Facts, dump: Path, day: str = NO_DAY) -> Answer:
    """Search Debian's tracker (`data/json`) for security updates that the image lacks.

    The file does not say its `day`. Raises LockError for another file, and for one that does not know the release.
    """
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
        of_source = (advisory for advisories in known.values() for advisory in advisories.values())
        if not any(facts.suite in advisory.get("releases", {}) for advisory in of_source):
            raise ValueError(f"no advisory about {facts.suite}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LockError(f"{TRACKER}: expected the tracker's JSON, found: {error}", "take data/json of it") from None
    return Answer(f"Debian's security tracker for {facts.suite}", tuple(sorted(found)), len(packages), (), day=day)


def _lacks(installed: str, fixed: str) -> bool:
    """Tell whether a version is before the fix; the tracker says 0 if the suite never had the fault."""
    return fixed != "0" and bool(NativeVersion(installed) < NativeVersion(fixed))
