"""Asks for advisories: for Python packages with pip-audit at the index, for Debian packages with apt in the image."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from dlc.buildspec.variant import normal_name
from dlc.core.atomic_files import scratch_folder
from dlc.core.errors import UsageError
from dlc.core.process import Completed, run, tail
from dlc.engine import images
from dlc.engine.connection import Engine
from dlc.images.inspection.facts import Facts
from dlc.images.inspection.scan import Answer, Finding

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


def of_python(facts: Facts, ca: Path | None) -> Answer:
    """Advisories of the package index. If it does not answer, the answer is `unanswered`, not a clean image."""
    if importlib.util.find_spec("pip_audit") is None:
        raise UsageError("dlc scan needs pip-audit, which this Python does not have", "make setup")
    packages = {p.name: LOCAL_VERSION.sub("", p.version) for p in facts.of_kind("python")}
    with scratch_folder("dlc-scan-") as folder:
        listed = folder / "requirements.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in packages.items()))
        argv = [sys.executable, "-m", "pip_audit", "--requirement", str(listed), "--no-deps", "--disable-pip",
                "--format", "json", "--desc", "off", "--progress-spinner", "off"]  # fmt: skip
        # pip-audit uses requests, which reads only this variable.
        environment = {"REQUESTS_CA_BUNDLE": str(ca)} if ca else None
        done = run(argv, env=environment, check=False, timeout=PIP_AUDIT_SECONDS)
    return python_answer(done, len(packages))


def python_answer(done: Completed, asked: int) -> Answer:
    """What pip-audit's JSON says; its exit code is 1 both for findings and for failure. Pure."""
    source = "the package index's advisories (pip-audit)"
    try:
        rows = list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError, TypeError):
        return Answer(source, (), asked, (), tail(done.stderr, 1) or "pip-audit printed nothing")
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


def of_debian(engine: Engine, facts: Facts, proxies: Mapping[str, str], ca: Path | None) -> Answer:
    """Security updates that the image lacks, by its own Debian sources; apt runs in a container of the image."""
    words = ["--interactive", "--user", "root", "--entrypoint", "/bin/sh"]
    for name in proxies:
        words += ["--env", name]  # the value is in the client's environment and in no argv
    given = ca.read_text(errors="replace") if ca else ""
    done = images.run_container(
        engine, *words, facts.ref, "-c", APT_SCRIPT, env=proxies, stdin=given, timeout=APT_SECONDS
    )
    return debian_answer(done, len(facts.of_kind("debian")))


def debian_answer(done: Completed, asked: int) -> Answer:
    """What apt would upgrade from a security archive. Pure."""
    source = "Debian security updates (apt)"
    if done.returncode:
        return Answer(source, (), asked, (), tail(done.stderr, 1) or f"apt-get ended with exit code {done.returncode}")
    findings = tuple(
        Finding(name, version, f"{name}-update", (), newer)
        for name, version, newer, origin in PENDING.findall(done.stdout) if "security" in origin.lower()
    )  # fmt: skip
    return Answer(source, findings, asked, ())
