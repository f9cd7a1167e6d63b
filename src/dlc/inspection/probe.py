"""Runs inside an image and prints, as JSON, which packages it holds. Standard library only, Python 3.9 or newer.

`dlc.inspection.facts` feeds this file to the image's own `python -I -`; on the host only tests import it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import stat
import sys
from collections.abc import Iterable, Iterator

DPKG_STATUS = "/var/lib/dpkg/status"
DPKG_FILES = "/var/lib/dpkg/info"
LAUNCHER = "/opt/dlc"
# Characters; some packages put the whole text in place of the name.
LONGEST_LICENCE = 80


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of a Debian control file: field -> value, continuation lines joined by newlines."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def copyright_licences(text: str) -> list[str]:
    """Return licence names of a Debian copyright file: its License fields, else the common licences it names."""
    if text.startswith("Format:"):
        names = [fields.get("License", "").partition("\n")[0] for fields in stanzas(text)]
    else:
        names = re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)
    return sorted({name.strip() for name in names if name.strip()})


def debian_package(fields: dict[str, str], root: str = "/") -> dict[str, object]:
    """Return what dpkg says of an installed package, what its copyright file names, and its files measured."""
    name, architecture = fields["Package"], fields["Architecture"]
    source, _, source_version = fields.get("Source", name).partition(" ")
    copyright_file = os.path.join(root, "usr/share/doc", name, "copyright")
    lists = [os.path.join(root, DPKG_FILES.lstrip("/"), stem + ".list") for stem in (f"{name}:{architecture}", name)]
    found = next((read(path).splitlines() for path in lists if os.path.exists(path)), [])
    depends = ",".join(fields.get(field, "") for field in ("Pre-Depends", "Depends"))
    return {
        "name": name,
        "version": fields["Version"],
        "architecture": architecture,
        "source": source,
        "source_version": source_version.strip("()") or fields["Version"],
        "homepage": fields.get("Homepage", ""),
        "licences": copyright_licences(read(copyright_file)) if os.path.exists(copyright_file) else [],
        "requires": sorted(set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", depends))),
        "provides": sorted(set(re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]*)", fields.get("Provides", "")))),
        **measured(os.path.join(root, path.lstrip("/")) for path in found),
    }


def debian_packages() -> list[dict[str, object]]:
    """Return every package that dpkg has installed; none in an image without dpkg."""
    text = read(DPKG_STATUS) if os.path.exists(DPKG_STATUS) else ""
    installed = [fields for fields in stanzas(text) if fields.get("Status", "").endswith(" installed")]
    return [debian_package(fields) for fields in sorted(installed, key=lambda fields: fields["Package"])]


def python_package(distribution: importlib.metadata.Distribution) -> dict[str, object]:
    """Return an installed Python distribution: its metadata, and its RECORD's files measured, bytecode included."""
    about = distribution.metadata

    def values(field: str) -> list[str]:
        return about.get_all(field) or []

    files = [str(distribution.locate_file(path)) for path in distribution.files or []]
    compiled = [cached for path in files if path.endswith(".py") for cached in [bytecode(path)] if cached not in files]
    return {
        "name": about["Name"],
        "version": about["Version"],
        "homepage": homepage(values("Home-page"), values("Project-URL")),
        "licences": python_licences(values("License-Expression"), values("License"), values("Classifier")),
        "requires": sorted({match[0] for text in distribution.requires or [] if (match := named(text))}),
        "provides": [],
        **measured([*files, *compiled]),
    }


def launcher() -> list[dict[str, object]]:
    """Return dlc's own part of the image, by the content key that it was built from; nothing in other images."""
    files = [os.path.join(folder, name) for folder, _, names in os.walk(LAUNCHER) for name in names]
    if not files:
        return []
    fields = {"name": "dlc-launcher", "version": os.environ.get("DLC_CONTENT_KEY", "")[:12] or "unknown"}
    lists = {"licences": ["Apache-2.0"], "requires": ["python3", "tini"], "provides": []}
    return [{**fields, "homepage": "", **lists, **measured(files)}]


def named(requirement: str) -> re.Match[str] | None:
    """Match the name at the start of a requirement; None if only an extra asks for it."""
    return None if re.search(r";.*\bextra\b", requirement) else re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)


def python_licences(expressions: list[str], texts: list[str], classifiers: list[str]) -> list[str]:
    """Return an SPDX expression if the package has one (PEP 639), else its classifiers, else a short free text."""
    if expressions:
        return expressions
    prefix = "License :: "
    classes = [name.rpartition(" :: ")[2] for name in classifiers if name.startswith(prefix)]
    precise = sorted({name for name in classes if name != "OSI Approved"})
    if precise:
        return precise
    lines = [text.strip() for text in texts]
    return [line for line in lines if line and "\n" not in line and len(line) <= LONGEST_LICENCE]


def homepage(pages: list[str], links: list[str]) -> str:
    """Return Home-page, or the project URL that is called so."""
    urls = {label.strip().lower(): url.strip() for label, _, url in (link.partition(",") for link in links)}
    chosen = [urls[label] for label in ("homepage", "home", "repository", "source") if label in urls]
    return (pages + chosen + [""])[0]


def bytecode(path: str) -> str:
    """Return where this interpreter keeps the compiled form of a source file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, "__pycache__", f"{name[:-3]}.{sys.implementation.cache_tag}.pyc")


def measured(paths: Iterable[str]) -> dict[str, object]:
    """Return number, bytes and SPDX verification code of the regular files among `paths` that still exist.

    The code is SHA-1 over the sorted SHA-1s of the files (SPDX 2.3, 7.9.4), of everything but compiled bytecode.
    """
    sizes, digests = [], []
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            sizes.append(status.st_size)
            if not path.endswith(".pyc"):
                digests.append(sha1(path))
    code = hashlib.sha1("".join(sorted(digests)).encode(), usedforsecurity=False).hexdigest()
    return {"files": len(sizes), "bytes": sum(sizes), "verification": code if digests else ""}


def sha1(path: str) -> str:
    """Return a file's SHA-1 in hex, as SPDX's verification code asks for it."""
    digest = hashlib.sha1(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read(path: str) -> str:
    """Read a text file; bytes that are no UTF-8 are replaced."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def os_name() -> str:
    """Return the system's name, as in `Debian GNU/Linux 12 (bookworm)`."""
    text = read("/etc/os-release") if os.path.exists("/etc/os-release") else ""
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return found[1] if found else "unknown"


def main() -> None:
    """Print everything as one JSON document."""
    found = {str(item.metadata["Name"]).lower(): item for item in reversed(list(importlib.metadata.distributions()))}
    facts = {
        "os": os_name(),
        "python": platform.python_version(),
        "debian": debian_packages(),
        "dlc": launcher(),
        "python_packages": [python_package(found[name]) for name in sorted(found)],
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
