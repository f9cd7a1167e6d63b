"""Resolves the packages of an image with uv: from which index each comes, split into hashed locks."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from uv import find_uv_bin

from dlc.buildspec import cuda_efa, lockfile
from dlc.buildspec.lockfile import parse_entries, parse_versions, with_headers
from dlc.buildspec.variant import IndexedPackages, Variant, normal_name
from dlc.core.atomic_files import draft_folder, replace_folder, scratch_folder
from dlc.core.environment import (
    INDEX_VARIABLES,
    LOGIN_REMEDY,
    PLATFORM,
    OwnIndexes,
    hide_password,
    local_wheel_folders,
    mirror_variable,
    read_own_indexes,
    resolve_index,
    wheel_folder,
)
from dlc.core.errors import LockError, PackageIndexError
from dlc.core.platforms import PLATFORMS
from dlc.core.process import Completed, run_program
from dlc.debian.suites import find_suite

RESOLVE_SECONDS = 900.0
PROBE_SECONDS = 300.0
NO_ANSWER = re.compile("error sending request|HTTP status server error|429 Too Many Requests")
REFUSED = re.compile(r"search failed because of status code failure: (40[137] [A-Za-z ]+)")
NOT_FOUND = "was not found in the package registry"
# uv says this of a page that is no index's.
NO_PAGE = "Unsupported `Content-Type`"
# uv's exit code; 2 is an error.
NO_SOLUTION = 1
SAID_CHARACTERS = 500
# uv looks where it is told: its folders are arguments, those that a build has too.
ALONE = {"UV_NO_CONFIG": "1", "UV_FIND_LINKS": ""}
# Variables of uv that say how it reaches an index and keeps what it got. All others may change what a lock holds.
OF_TRANSPORT = re.compile(
    r"UV_(?:CACHE_DIR|NO_CACHE|HTTP_\w+|REQUEST_TIMEOUT|CONCURRENT_\w+|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|OFFLINE"
    r"|KEYRING_PROVIDER|LINK_MODE|LOCK_TIMEOUT|NO_PROGRESS|NO_COLOR|INDEX_\w+_(?:USERNAME|PASSWORD))"
)


@dataclass(frozen=True)
class LockRequest:
    """What to lock. Requirements are PEP 508 strings; `source` names packages without a wheel, which we build."""

    framework: tuple[str, ...]
    training: tuple[str, ...]
    source: tuple[str, ...]
    # Names of packages that are compiled against the framework.
    compiled: tuple[str, ...]
    # As in 3.11.
    python: str
    # As in 2.36: the newest wheels that the base's C library can load.
    glibc: str
    # Of what the lock is made from, as the first line of each file records it.
    digest: str
    # Which packages come from an index of the buildspec.
    indexed: tuple[IndexedPackages, ...] = ()
    # Conditions on packages that are asked for without a version.
    constraints: tuple[str, ...] = ()
    # Package -> requirement that contains it.
    provided: Mapping[str, str] = field(default_factory=dict)
    # As in cu128; empty: of any CUDA.
    device: str = ""
    # Entries of a lock: these versions are taken if they fit.
    preferred: str = ""
    platform: str = PLATFORM
    # Packages that are asked for by address: (name, version) -> entry of the lock, and the folders of their wheels.
    direct: Mapping[tuple[str, str], str] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()


def make_request(variant: Variant, preferred: str = "") -> LockRequest:
    """Return what to lock for an image; `preferred` as in LockRequest."""
    return LockRequest(
        framework=variant.framework_requirements,
        training=variant.training_requirements,
        source=variant.source_built,
        compiled=variant.compiled,
        python=variant.settings.python,
        glibc=find_suite(variant.suite).glibc,
        platform=variant.settings.platform,
        digest=variant.lock_digest(),
        indexed=variant.indexed,
        constraints=variant.constraints,
        provided=variant.provided,
        device=variant.settings.device,
        preferred=preferred,
    )


def make_lock(request: LockRequest) -> dict[str, str]:
    """Resolve; return file name -> text of the lock files.

    Raises LockError, with the resolver's explanation, when there is no solution, or none that an image may hold.
    """
    return with_headers(request.digest, make_texts(request), request.platform)


def make_texts(request: LockRequest) -> dict[str, str]:
    """Resolve as `make_lock` does; return the files without their first lines."""
    whole = resolve_packages(request, [*request.framework, *request.training])
    require_sound(request, whole)
    part = resolve_packages(request, list(request.framework), _list_pins(whole))
    framework = list(parse_versions(part))
    groups = {"framework": framework, "cuda": cuda_efa.shared_packages(framework)}
    return split_lock(whole, {**groups, "source": request.source, "compiled": request.compiled})


def store_lock(texts: Mapping[str, str], folder: Path) -> None:
    """Write the files of a lock: all of them take the place of the old ones, or none does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent, ".drafts") as draft:
        new = draft / folder.name
        new.mkdir()
        for name, text in texts.items():
            (new / name).write_text(text)
        replace_folder(new, folder)


def split_lock(lock: str, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Cut one lock into file name -> text: `GROUP.txt` with the packages of each group, `training.txt` with the rest.

    A package of two groups goes to the later one.
    """
    group_of = {normal_name(name): group for group, members in groups.items() for name in members}
    texts: dict[str, list[str]] = {f"{group}.txt": [] for group in (*groups, "training")}
    for (name, _), entry in parse_entries(lock).items():
        texts[f"{group_of.get(name, 'training')}.txt"].append(entry)
    return {name: "\n".join(found) + "\n" if found else "" for name, found in texts.items()}


def require_sound(request: LockRequest, lock: str) -> None:
    """Raise LockError, with the chains of requirements, for packages that no image may hold together."""
    if wrong := lockfile.explain_other_cuda(request.device, parse_versions(lock)):
        raise LockError(wrong, "set `device` to the CUDA version of these packages, or ask for other packages")
    if not lockfile.find_conflicts(parse_versions(lock)):
        return
    annotated = annotate(request, _list_pins(lock))
    if error := lockfile.conflict_error(parse_versions(lock), lockfile.parse_requirers(annotated)):
        raise error


def annotate(request: LockRequest, pins: Sequence[str]) -> str:
    """Return a resolution of these pins with a note for each package of what requires it."""
    return _run_resolution(
        request, ["--annotation-style", "line"], [*request.framework, *request.training], pins
    )  # fmt: skip


def resolve_packages(request: LockRequest, requirements: Sequence[str], constraints: Sequence[str] = ()) -> str:
    """Return the text of a lock for these requirements within these constraints, without comments. Raises LockError.

    A package by address has the one hash of its own wheel: an index may have another file of the same version.
    """
    lock = _run_resolution(request, ["--no-annotate", "--generate-hashes"], requirements, constraints)
    if not request.direct:
        return lock
    return "\n".join(request.direct.get(pin, entry) for pin, entry in parse_entries(lock).items()) + "\n"


def _make_command(request: LockRequest) -> list[str]:
    """Return the command of every resolution for this image."""
    argv = [find_uv_bin(), "pip", "compile", "--quiet", "--no-header"]
    argv += ["--python-version", request.python]
    machine = PLATFORMS[request.platform].machine
    argv += ["--python-platform", f"{machine}-manylinux_{request.glibc.replace('.', '_')}"]
    # A package without a wheel needs a compiler: the buildspec must name it.
    argv += ["--only-binary", ":all:"]
    for name in (*request.source, *request.compiled):
        argv += ["--no-binary", name]
    for folder in (*request.folders, *local_wheel_folders()):
        argv += ["--find-links", str(folder)]
    return argv


def _run_resolution(
    request: LockRequest, options: Sequence[str], requirements: Sequence[str], constraints: Sequence[str]
) -> str:
    argv = _make_command(request)
    asked = find_needed_indexes(request.indexed, requirements, argv)
    limits = [*request.constraints, *constraints]
    done = _run_uv([*argv, *options], asked, requirements, limits, request)
    if done.returncode:
        message = f"no lock for {', '.join(requirements)}:\n{hide_credentials(asked, done.stderr.strip())}"
        silent = NO_ANSWER.search(done.stderr)
        refused = ""
        if not silent and NOT_FOUND in done.stderr:
            told = [_VERBOSE.get(word, word) for word in (*argv, *options)]
            refused = find_refused_status(_run_uv(told, asked, requirements, limits, request).stderr)
        error = PackageIndexError if silent or refused else LockError
        remedy = LOGIN_REMEDY if refused else "change the versions"
        said = [message, f"an index refused to say what it has: {refused}"] if refused else [message]
        if not asked:
            raise error("\n".join(said), f"{remedy}, or check that the package index answers")
        said += [name_places_asked(asked), *list_own_answers(asked, requirements, argv)]
        raise error("\n".join(said), f"{remedy}, or {advise_mirror(asked)}")
    return done.stdout


# uv says only so that an index answered 401 or 403, and else that it lacks the package.
_VERBOSE = {"--quiet": "--verbose"}


def _list_pins(lock: str) -> list[str]:
    """Return `name==version` of every entry."""
    return [f"{name}=={version}" for name, version in parse_entries(lock)]


def _run_uv(
    argv: Sequence[str],
    asked: Sequence[IndexedPackages],
    requirements: Sequence[str],
    constraints: Sequence[str],
    request: LockRequest,
) -> Completed:
    """Run uv on files that live as long as the call. uv prefers the versions that its output file has."""
    with scratch_folder("dlc-lock-") as folder:
        project, limits, lock = (folder / name for name in ("pyproject.toml", "constraints.txt", "lock.txt"))
        stand_ins = write_stand_ins(request.provided, folder)
        lock.write_text(request.preferred)
        project.write_text(write_project(asked, [*requirements, *stand_ins], os.environ))
        limits.write_text("\n".join(constraints))
        done = run_program(
            [*argv, str(project), "--output-file", str(lock), *(["--constraint", str(limits)] if constraints else [])],
            env=make_uv_environment() | {"TMPDIR": str(folder)}, check=False, timeout=RESOLVE_SECONDS,
        )  # fmt: skip
        return replace(done, stdout=lock.read_text())


def find_needed_indexes(
    indexed: Sequence[IndexedPackages], requirements: Sequence[str], argv: Sequence[str]
) -> tuple[IndexedPackages, ...]:
    """Return the indexes of the buildspec that a resolution needs, each with the packages that it needs from there.

    A package that the user's own folders or indexes have in the wanted version comes from there. `argv` is the
    resolver's command. Raises PackageIndexError for an index of the user that fails: it may have the package.
    """
    found = []
    for index in indexed:
        asked = [requirement for requirement in requirements if normal_name(requirement) in index.packages]
        missing = [each for each in asked if _why_lacking(each, tuple(argv), read_own_indexes(os.environ)) is not None]
        if missing:
            names = tuple(normal_name(requirement) for requirement in missing)
            found.append(replace(index, packages=names))
    return tuple(found)


def write_project(
    indexes: Sequence[IndexedPackages], requirements: Sequence[str], environment: Mapping[str, str]
) -> str:
    """Return a pyproject.toml with the requirements, and for some packages the only index that they may come from.

    The project's name appears in the resolver's messages: "because buildspec depends on". The text may hold the
    credentials of a mirror: write it where no other user can read it, and remove it.
    """
    lines = ["[project]", 'name = "buildspec"', 'version = "0"', f"dependencies = {json.dumps(list(requirements))}"]
    for index in indexes:
        address = resolve_index(index.index, index.address, environment)
        lines += ["[[tool.uv.index]]", f"name = {json.dumps(index.index)}", f"url = {json.dumps(address)}"]
        lines += ["explicit = true", *(['format = "flat"'] if wheel_folder(address) else [])]
    lines += ["[tool.uv.sources]"]
    lines += [f"{name} = {{ index = {json.dumps(index.index)} }}" for index in indexes for name in index.packages]
    return "\n".join([*lines, ""])


def make_uv_environment() -> dict[str, str | None]:
    """Return variables that point uv at the user's indexes, whichever client's variables name them."""
    own = read_own_indexes(os.environ)
    return {**hide_settings(), **ALONE, "UV_DEFAULT_INDEX": own.default, "UV_INDEX": " ".join(own.extra)}


def hide_settings() -> dict[str, str | None]:
    """Return what takes variables out of the environment by which uv would resolve in another way."""
    return {name: None for name in os.environ if name.startswith("UV_") and not OF_TRANSPORT.fullmatch(name)}


def list_unused_settings() -> list[str]:
    """Return a warning for each of these variables that dlc does not read itself."""
    read = {"UV_FIND_LINKS", "UV_NO_CONFIG", *(name for names in INDEX_VARIABLES.values() for name in names)}
    return [
        f"{name} is not used: what a lock has to hold is in the buildspec"
        for name in sorted(hide_settings()) if name not in read and os.environ[name]
    ]  # fmt: skip


def name_places_asked(indexes: Sequence[IndexedPackages]) -> str:
    """Name where packages of these indexes were looked for, one line for each index, without credentials."""
    own = [str(folder) for folder in local_wheel_folders()]
    own += [hide_password(address) for address in read_own_indexes(os.environ).all]
    lines = []
    for index in indexes:
        address = hide_password(resolve_index(index.index, index.address, os.environ))
        lines.append(f"{', '.join(index.packages)}: looked in {', '.join([*own, f'{index.index} ({address})'])}")
    return "\n".join(lines)


def list_own_answers(indexes: Sequence[IndexedPackages], requirements: Sequence[str], argv: Sequence[str]) -> list[str]:
    """Return a line for each answer of the user's own folders and indexes about what these indexes were needed for."""
    names = {name for index in indexes for name in index.packages}
    own = read_own_indexes(os.environ)
    answers = {each: _why_lacking(each, tuple(argv), own) for each in requirements if normal_name(each) in names}
    return [
        f"{requirement}: your own folders and indexes: {answer}" for requirement, answer in answers.items() if answer
    ]


def find_refused_status(said: str) -> str:
    """Return the status with which an index refused, in what uv says with --verbose; empty if none did."""
    found = REFUSED.search(said)
    return found[1] if found else ""


def hide_credentials(indexes: Sequence[IndexedPackages], text: str) -> str:
    """Return the text without the credentials of these indexes' mirrors."""
    for index in indexes:
        address = resolve_index(index.index, index.address, os.environ)
        text = text.replace(address, hide_password(address))
    return text


def advise_mirror(indexes: Sequence[IndexedPackages]) -> str:
    """Return what to do if an index of the buildspec does not have a package, or does not answer."""
    variables = " or ".join(f"{mirror_variable(index.index)}=ADDRESS" for index in indexes)
    place = f"name a mirror of the index with {variables}, or a folder that holds the wheels in UV_FIND_LINKS"
    return f"{place} (uv.toml and pip.conf are not read)"


@lru_cache
def _why_lacking(requirement: str, argv: tuple[str, ...], own: OwnIndexes) -> str | None:
    """Tell why the user's folders and indexes do not have a requirement, in uv's words; None if they have it.

    The default index counts for local versions (`+cpu`) only: others may be another build of the same version there.
    """
    indexes = own.all if "+" in requirement else own.extra
    if not indexes and not local_wheel_folders():
        return ""
    where = {"UV_DEFAULT_INDEX": indexes[0], "UV_INDEX": " ".join(indexes[1:])} if indexes else {}
    # uv reads no variable for it.
    alone = [] if indexes else ["--no-index"]
    with scratch_folder("dlc-lock-") as folder:
        done = run_program(
            [*argv, "-", "--no-deps", *alone], stdin=requirement, check=False, timeout=PROBE_SECONDS,
            env={**hide_settings(), **ALONE, **where, "TMPDIR": str(folder)},
        )  # fmt: skip
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.split())
    for address in indexes:
        said = said.replace(address, hide_password(address))
    if done.returncode != NO_SOLUTION or NO_ANSWER.search(said) or NO_PAGE in said:
        raise PackageIndexError(
            f"your own package index failed when it was asked for {requirement}: {said[-SAID_CHARACTERS:]}",
            "check that it answers, or take it out of " + ", ".join(chain(*INDEX_VARIABLES.values())),
        )
    return said[:SAID_CHARACTERS]


def write_stand_ins(provided: Mapping[str, str], folder: Path) -> list[str]:
    """Write a wheel for each package of `provided` (name -> `provider==version`).

    Return the requirements that name them.

    A wheel has its provider's version: what asks for another version of the package finds no solution.
    """
    return [f"{name} @ {_write_stand_in(name, provider, folder).as_uri()}" for name, provider in provided.items()]


def _write_stand_in(name: str, provider: str, folder: Path) -> Path:
    version = provider.partition("==")[2].partition("+")[0]
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", f"{head}Requires-Dist: {provider}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: dlc\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "".join(f"{info}/{each},,\n" for each in ("METADATA", "WHEEL", "RECORD")))
    return path
