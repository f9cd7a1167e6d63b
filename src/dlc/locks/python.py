"""Writes the hashed locks of an image: one resolution by uv, split into the files that the Dockerfiles install."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from uv import find_uv_bin

from dlc.buildspec import cuda_efa, lockfile
from dlc.buildspec.lockfile import entries, versions, with_headers
from dlc.buildspec.variant import IndexedPackages, Variant, normal_name
from dlc.core.atomic_files import draft_folder, replace_folder, scratch_folder
from dlc.core.environment import LOGIN_REMEDY, local_wheel_folders
from dlc.core.errors import LockError, PackageIndexError
from dlc.core.process import Completed, run
from dlc.debian.suites import find_suite
from dlc.locks import indexes, stand_in

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
    indexed: tuple[IndexedPackages, ...] = ()  # which packages come from an index of the buildspec
    constraints: tuple[str, ...] = ()  # on packages that are asked for without a version
    provided: Mapping[str, str] = field(default_factory=dict)  # package -> requirement that contains it
    device: str = ""  # as in cu128; empty: of any CUDA
    preferred: str = ""  # entries of a lock: these versions are taken where they fit


def request_of(variant: Variant, preferred: str = "") -> LockRequest:
    """What to lock for an image; `preferred` as in LockRequest."""
    return LockRequest(
        framework=variant.framework_requirements,
        training=variant.training_requirements,
        source=variant.source_built,
        compiled=variant.compiled,
        python=variant.settings.python,
        glibc=find_suite(variant.suite).glibc,
        digest=variant.lock_digest(),
        indexed=variant.indexed,
        constraints=variant.constraints,
        provided=variant.provided,
        device=variant.settings.device,
        preferred=preferred,
    )


def make(request: LockRequest) -> dict[str, str]:
    """Resolve; return file name -> text of the lock files.

    Raises LockError, with the resolver's explanation, when there is no solution, or none that an image may hold.
    """
    whole = resolve(request, [*request.framework, *request.training])
    _require_sound(request, whole)
    part = resolve(request, list(request.framework), _pins(whole))
    framework = list(versions(part))
    groups = {"framework": framework, "cuda": cuda_efa.shared(framework)}
    texts = split(whole, {**groups, "source": request.source, "compiled": request.compiled})
    return with_headers(request.digest, texts)


def store(texts: Mapping[str, str], folder: Path) -> None:
    """Write the files of a lock: all of them take the place of the old ones, or none does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent, ".drafts") as draft:
        new = draft / folder.name
        new.mkdir()
        for name, text in texts.items():
            (new / name).write_text(text)
        replace_folder(new, folder)


def split(lock: str, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Cut one lock into file name -> text: `GROUP.txt` with the packages of each group, `training.txt` with the rest.

    A package of two groups goes to the later one.
    """
    group_of = {normal_name(name): group for group, members in groups.items() for name in members}
    texts: dict[str, list[str]] = {f"{group}.txt": [] for group in (*groups, "training")}
    for (name, _), entry in entries(lock).items():
        texts[f"{group_of.get(name, 'training')}.txt"].append(entry)
    return {name: "\n".join(found) + "\n" if found else "" for name, found in texts.items()}


def _require_sound(request: LockRequest, lock: str) -> None:
    """Raise LockError, with the chains of requirements, for packages that no image may hold together."""
    if wrong := lockfile.other_cuda(request.device, versions(lock)):
        raise LockError(wrong, "set `device` to the CUDA version of these packages, or ask for other packages")
    if not lockfile.conflicts(versions(lock)):
        return
    annotated = _answer(request, ["--annotation-style", "line"], [*request.framework, *request.training], _pins(lock))
    if error := lockfile.refusal(versions(lock), lockfile.requirers(annotated)):
        raise error


def resolve(request: LockRequest, requirements: Sequence[str], constraints: Sequence[str] = ()) -> str:
    """The text of a lock for these requirements within these constraints, without comments. Raises LockError."""
    return _answer(request, ["--no-annotate", "--generate-hashes"], requirements, constraints)


def _arguments(request: LockRequest) -> list[str]:
    """The command of every resolution for this image."""
    argv = [find_uv_bin(), "pip", "compile", "--quiet", "--no-header"]
    argv += ["--python-version", request.python]
    argv += ["--python-platform", f"x86_64-manylinux_{request.glibc.replace('.', '_')}"]
    # A package without a wheel needs a compiler: the buildspec must name it.
    argv += ["--only-binary", ":all:"]
    for name in (*request.source, *request.compiled):
        argv += ["--no-binary", name]
    for folder in local_wheel_folders():
        argv += ["--find-links", str(folder)]
    return argv


def _answer(
    request: LockRequest, options: Sequence[str], requirements: Sequence[str], constraints: Sequence[str]
) -> str:
    argv = _arguments(request)
    asked = indexes.needed(request.indexed, requirements, argv)
    limits = [*request.constraints, *constraints]
    done = _compile([*argv, *options], asked, requirements, limits, request)
    if done.returncode:
        message = f"no lock for {', '.join(requirements)}:\n{indexes.redacted(asked, done.stderr.strip())}"
        silent = indexes.NO_ANSWER.search(done.stderr)
        refused = ""
        if not silent and indexes.NOT_FOUND in done.stderr:
            told = [_VERBOSE.get(word, word) for word in (*argv, *options)]
            refused = indexes.refused(_compile(told, asked, requirements, limits, request).stderr)
        error = PackageIndexError if silent or refused else LockError
        remedy = LOGIN_REMEDY if refused else "change the versions"
        said = [message, f"an index refused to say what it has: {refused}"] if refused else [message]
        if not asked:
            raise error("\n".join(said), f"{remedy}, or check that the package index answers")
        said += [indexes.places(asked), *indexes.own_answers(asked, requirements, argv)]
        raise error("\n".join(said), f"{remedy}, or {indexes.remedy(asked)}")
    return done.stdout


# uv says only so that an index answered 401 or 403, and else that it lacks the package.
_VERBOSE = {"--quiet": "--verbose"}


def _pins(lock: str) -> list[str]:
    """`name==version` of every entry."""
    return [f"{name}=={version}" for name, version in entries(lock)]


def _compile(
    argv: Sequence[str],
    asked: Sequence[IndexedPackages],
    requirements: Sequence[str],
    constraints: Sequence[str],
    request: LockRequest,
) -> Completed:
    """All travels through files that live as long as the call. uv prefers the versions that its output file has."""
    with scratch_folder("dlc-lock-") as folder:
        project, limits, lock = (folder / name for name in ("pyproject.toml", "constraints.txt", "lock.txt"))
        stand_ins = stand_in.write(request.provided, folder)
        lock.write_text(request.preferred)
        project.write_text(indexes.project(asked, [*requirements, *stand_ins], os.environ))
        limits.write_text("\n".join(constraints))
        done = run(
            [*argv, str(project), "--output-file", str(lock), *(["--constraint", str(limits)] if constraints else [])],
            env=indexes.environment() | {"TMPDIR": str(folder)}, check=False, timeout=RESOLVE_SECONDS,
        )  # fmt: skip
        return replace(done, stdout=lock.read_text())
