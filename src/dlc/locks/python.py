"""Writes the hashed locks of an image: one resolution by uv, cut into the files that the recipe installs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from uv import find_uv_bin

from dlc.buildspec import lock_check
from dlc.buildspec.locked import header, versions
from dlc.buildspec.variant import Variant, normal_name
from dlc.core.environment import local_wheel_folders
from dlc.core.errors import LockError
from dlc.core.process import Completed, run
from dlc.locks import wheel_size

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
    digest: str  # of what the lock is made from, as the first line of each file records it


def request_of(variant: Variant) -> LockRequest:
    """What to lock for an image."""
    return LockRequest(
        framework=variant.framework_requirements,
        training=variant.training_requirements,
        source=variant.source_built,
        compiled=variant.compiled,
        python=variant.settings.python,
        glibc=SUITE_GLIBC[variant.suite],
        digest=variant.lock_digest(),
    )


def write(request: LockRequest, folder: Path) -> list[str]:
    """Resolve and write the lock files; return the names of all locked packages.

    Raises LockError, with the resolver's explanation, when there is no solution, or none that an image may hold.
    Nothing is written then.
    """
    whole = resolve(request, [*request.framework, *request.training])
    _require_sound(request, whole)
    part = resolve(request, list(request.framework), _pins(whole))
    texts = split(whole, {"framework": names(part), "source": request.source, "compiled": request.compiled})
    sizes = measure(request, whole)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(header(request.digest, sum(sizes[package] for package in names(text))) + text)
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


def measure(request: LockRequest, lock: str) -> dict[str, int]:
    """Normal package name -> bytes of its file, for every package of a lock. Raises LockError."""
    argv = [*_arguments(request), "--no-deps", "--format", "pylock.toml"]
    return wheel_size.sizes(_answer(argv, _pins(lock), ()))


def _require_sound(request: LockRequest, lock: str) -> None:
    """Raise LockError, with the chains of who asks, for what no image may hold."""
    if not lock_check.conflicts(versions(lock)):
        return
    argv = [*_arguments(request), "--annotation-style", "line"]
    annotated = _answer(argv, [*request.framework, *request.training], _pins(lock))
    if error := lock_check.refusal(versions(lock), lock_check.requirers(annotated)):
        raise error


def resolve(request: LockRequest, requirements: Sequence[str], constraints: Sequence[str] = ()) -> str:
    """The text of a lock for these requirements within these constraints, without comments. Raises LockError."""
    return _answer([*_arguments(request), "--no-annotate", "--generate-hashes"], requirements, constraints)


def _arguments(request: LockRequest) -> list[str]:
    """The command of every resolution for this image."""
    argv = [find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-header"]
    argv += ["--python-version", request.python]
    argv += ["--python-platform", f"x86_64-manylinux_{request.glibc.replace('.', '_')}"]
    # A package without a wheel would bring a compiler into the image: it must be named as such.
    argv += ["--only-binary", ":all:"]
    for name in (*request.source, *request.compiled):
        argv += ["--no-binary", name]
    for folder in local_wheel_folders():
        argv += ["--find-links", str(folder)]
    return argv


def _answer(argv: Sequence[str], requirements: Sequence[str], constraints: Sequence[str]) -> str:
    done = _compile(argv, requirements, constraints)
    if done.returncode:
        raise LockError(
            f"no lock for {', '.join(requirements)}:\n{done.stderr.strip()}", "change the versions asked for"
        )
    return done.stdout


def _pins(lock: str) -> list[str]:
    """`name==version` of every entry."""
    return re.findall(r"^[A-Za-z0-9][^ \\\n]*==[^ \\\n]+", lock, re.MULTILINE)


def _compile(argv: Sequence[str], requirements: Sequence[str], constraints: Sequence[str]) -> Completed:
    """Constraints travel as requirements would, through a file that lives as long as the call."""
    environment = {"UV_NO_CONFIG": "1"}
    text = "\n".join(requirements)
    if not constraints:
        return run(argv, stdin=text, env=environment, check=False, timeout=RESOLVE_SECONDS)
    with NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(constraints))
        file.flush()
        return run(
            [*argv, "--constraint", file.name], stdin=text, env=environment, check=False, timeout=RESOLVE_SECONDS
        )
