"""Writes the hashed locks of an image: one resolution by uv, cut into the files that the recipe installs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from uv import find_uv_bin

from dlc.errors import LockError
from dlc.process import Completed, run
from dlc.variant import normal_name

# A requirement line and the indented lines (hashes) that continue it.
ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==.*(?:\n +.*)*", re.MULTILINE)
# The newest wheels that each Debian release's C library loads. trixie has 2.41; uv knows platforms up to 2.40.
SUITE_GLIBC = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.40"}
RESOLVE_SECONDS = 900.0


@dataclass(frozen=True)
class LockRequest:
    """What to lock. Requirements are PEP 508 strings; `source` names packages without a wheel, which we build."""

    framework: tuple[str, ...]
    training: tuple[str, ...]
    source: tuple[str, ...]
    compiled: tuple[str, ...]  # names of packages that are compiled against the framework
    python: str  # as in 3.11
    glibc: str  # as in 2.36: the newest wheels that the base's C library can load
    header: str  # first line of every file: says what the lock was made from


def write(request: LockRequest, folder: Path) -> list[str]:
    """Resolve and write the lock files; return the names of all locked packages.

    Raises LockError, with the resolver's explanation, when there is no solution. Nothing is written then.
    """
    whole = _resolve(request, [*request.framework, *request.training], None)
    part = _resolve(request, list(request.framework), whole)
    texts = split(whole, {"framework": names(part), "source": request.source, "compiled": request.compiled})
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{request.header}\n{text}")
    return names(whole)


def names(lock: str) -> list[str]:
    """Normalised package names of a lock, in its order."""
    return [normal_name(match.group(1)) for match in ENTRY.finditer(lock)]


def split(lock: str, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Cut one lock into file name -> text: `GROUP.txt` with the packages of each group, `training.txt` with the rest.

    A package of two groups goes to the later one.
    """
    group_of = {normal_name(name): group for group, members in groups.items() for name in members}
    texts: dict[str, list[str]] = {f"{group}.txt": [] for group in (*groups, "training")}
    for match in ENTRY.finditer(lock):
        texts[f"{group_of.get(normal_name(match.group(1)), 'training')}.txt"].append(match.group(0))
    return {name: "\n".join(entries) + "\n" if entries else "" for name, entries in texts.items()}


def local_wheel_folders() -> list[Path]:
    """The user's local wheel folders, from UV_FIND_LINKS (commas) and PIP_FIND_LINKS (spaces)."""
    words = os.environ.get("UV_FIND_LINKS", "").split(",") + os.environ.get("PIP_FIND_LINKS", "").split()
    folders = [
        Path(word.removeprefix("file://")) for word in words if word and "://" not in word.removeprefix("file://")
    ]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _resolve(request: LockRequest, requirements: Sequence[str], constraints: str | None) -> str:
    """One run of `uv pip compile`; the text of the lock without comments."""
    argv = [find_uv_bin(), "pip", "compile", "-", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    argv += [
        "--python-version",
        request.python,
        "--python-platform",
        f"x86_64-manylinux_{request.glibc.replace('.', '_')}",
    ]
    # A package without a wheel would bring a compiler into the image: it must be named as such.
    argv += ["--only-binary", ":all:"]
    for name in (*request.source, *request.compiled):
        argv += ["--no-binary", name]
    for folder in local_wheel_folders():
        argv += ["--find-links", str(folder)]
    done = _compile(argv, requirements, constraints)
    if done.returncode:
        raise LockError(
            f"no lock for {', '.join(requirements)}:\n{done.stderr.strip()}", "change the versions asked for"
        )
    return done.stdout


def _compile(argv: Sequence[str], requirements: Sequence[str], constraints: str | None) -> Completed:
    """Constraints travel as requirements would, through a file that lives as long as the call."""
    environment = {"UV_NO_CONFIG": "1"}
    text = "\n".join(requirements)
    if constraints is None:
        return run(argv, stdin=text, env=environment, check=False, timeout=RESOLVE_SECONDS)
    pins = re.findall(r"^[A-Za-z0-9][^ \\\n]*==[^ \\\n]+", constraints, re.MULTILINE)
    with NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        return run(
            [*argv, "--constraint", file.name], stdin=text, env=environment, check=False, timeout=RESOLVE_SECONDS
        )
