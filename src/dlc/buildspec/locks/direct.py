"""Packages by address (NAME @ ADDRESS): their wheels are fetched, or built from sources, and go into a lock by hash."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urldefrag

from packaging.requirements import Requirement

from dlc.buildspec.lockfile import parse_entries
from dlc.buildspec.locks.resolve import LockRequest
from dlc.buildspec.requirement_forms import GIT, WHEEL, find_address
from dlc.buildspec.variant import Variant, normal_name
from dlc.core.atomic_files import draft_folder, scratch_folder
from dlc.core.checkout import LOCKS
from dlc.core.digests import hash_file
from dlc.core.environment import find_ca_bundle, read_own_indexes
from dlc.core.errors import LockError
from dlc.core.platforms import PLATFORMS
from dlc.core.process import run_program

BUILD_SECONDS = 900.0
GIT_SECONDS = 120.0
COMMIT = re.compile(r"[0-9a-f]{40}")
HASH = re.compile(r"sha256:([0-9a-f]{64})")
# The end of an entry: where its file is from.
FROM = "    # from "
# The time that files of a built wheel have: the first that a wheel can hold.
WHEEL_EPOCH = "315532800"
# A wheel that any Python can use: what another one compiles fits the Python and the C library of this host alone.
ANY_PYTHON = "-none-any.whl"
SAID_LINES = 8
# Where a project has the wheels that were built from sources.
KEPT = f"{LOCKS}/wheels"


@dataclass(frozen=True)
class DirectWheel:
    """The wheel of a package that is asked for by address."""

    path: Path
    # With the commit, if it is a repository's.
    address: str
    sha256: str

    @property
    def pin(self) -> tuple[str, str]:
        """Return its normal name and its version."""
        name, version = self.path.name.split("-")[:2]
        return normal_name(name), version

    @property
    def entry(self) -> str:
        """Return its entry in a lock."""
        name, version = self.pin
        return f"{name}=={version} \\\n    --hash=sha256:{self.sha256}\n{FROM}{self.address}"

    @property
    def is_kept(self) -> bool:
        """Tell whether the file has to be kept with the lock: sources may make another wheel on another day."""
        return not (self.address.startswith("http") and self.address.endswith(WHEEL))


@contextmanager
def with_wheels(request: LockRequest) -> Iterator[tuple[LockRequest, list[DirectWheel]]]:
    """Get the wheel of each package that is asked for by address; their folder lives as long as the context.

    Yields the request for the versions that these wheels have, and the wheels. Raises LockError.
    """
    with scratch_folder("dlc-direct-") as folder:
        found = {
            each: _get_wheel(each, request, folder / str(number))
            for number, each in enumerate(request.training) if find_address(each)
        }  # fmt: skip
        training = tuple(_name_version(each, found[each]) if each in found else each for each in request.training)
        own = {wheel.pin: wheel.entry for wheel in found.values()}
        folders = tuple(wheel.path.parent for wheel in found.values())
        yield replace(request, training=training, direct=own, folders=folders), list(found.values())


def _name_version(requirement: str, wheel: DirectWheel) -> str:
    parsed = Requirement(requirement)
    extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
    return f"{parsed.name}{extras}=={wheel.pin[1]}"


def _get_wheel(requirement: str, request: LockRequest, folder: Path) -> DirectWheel:
    """Fetch or build the wheel of `NAME @ ADDRESS` into a folder."""
    address = _name_commit(find_address(requirement))
    plain, fragment = urldefrag(address)
    folder.mkdir()
    is_wheel = plain.endswith(WHEEL)
    words = [*_make_fetch(request), "--dest"] if is_wheel else ["wheel", "--no-deps", "--wheel-dir"]
    name = Requirement(requirement).name
    done = run_program(
        [sys.executable, "-m", "pip", *words, str(folder), f"{name} @ {address}"], env=_make_environment(),
        check=False, timeout=BUILD_SECONDS,
    )  # fmt: skip
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-SAID_LINES:])
        raise LockError(f"{requirement}: no wheel can be had from this address:\n{said}", "correct the address")
    [wheel] = wheels
    if not is_wheel and not wheel.name.endswith(ANY_PYTHON):
        raise LockError(
            f"{requirement}: its sources compile code, and {wheel.name} fits this host alone",
            "build its wheel in the image (dlc shell), and put it into a folder that UV_FIND_LINKS names",
        )
    kept = plain if is_wheel or not fragment.startswith("subdirectory=") else address
    return DirectWheel(wheel, kept, hash_file(wheel))


def _make_fetch(request: LockRequest) -> list[str]:
    """Return pip's words for a wheel that fits the image's Python and C library."""
    minor, machine = int(request.glibc.partition(".")[2]), PLATFORMS[request.platform].machine
    names = [*(f"manylinux_2_{level}" for level in range(minor, 4, -1)), "manylinux2014", "manylinux1", "linux"]
    return [
        "download", "--no-deps", "--only-binary", ":all:", "--implementation", "cp",
        "--python-version", request.python, *(word for each in names for word in ("--platform", f"{each}_{machine}")),
    ]  # fmt: skip


def _make_environment() -> dict[str, str]:
    """Return variables for pip: the user's index and authorities, no questions, and times that every build has."""
    own, ca = read_own_indexes(os.environ), find_ca_bundle(os.environ)
    return {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_QUIET": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "SOURCE_DATE_EPOCH": WHEEL_EPOCH,
        **({"PIP_INDEX_URL": own.default} if own.default else {}),
        **({"PIP_CERT": str(ca)} if ca else {}),
    }


def _name_commit(address: str) -> str:
    """Return the address of a git repository with the commit that its branch or tag means now; others as they are."""
    if not address.startswith(GIT):
        return address
    plain, fragment = urldefrag(address)
    scheme, _, rest = plain.partition("://")
    place, _, path = rest.partition("/")
    path, _, revision = path.partition("@")
    repository = f"{scheme}://{place}/{path}"
    if not COMMIT.fullmatch(revision):
        revision = _ask_for_commit(repository.removeprefix(GIT), revision or "HEAD")
    return f"{repository}@{revision}" + (f"#{fragment}" if fragment else "")


def _ask_for_commit(repository: str, revision: str) -> str:
    """Return the commit of a branch or a tag. Raises LockError if the repository does not have it, or not answer."""
    argv = ["git", "ls-remote", "--exit-code", "--", repository, revision, f"{revision}^{{}}"]
    done = run_program(argv, env=_make_environment(), check=False, timeout=GIT_SECONDS)
    lines = [line.split() for line in done.stdout.splitlines()]
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines()[-1:] or [f"it has no {revision}"]
        raise LockError(f"{repository}: expected a commit of {revision}, found: {said[0]}", "correct the address")
    # Of an annotated tag there are two lines; the commit is the one with ^{}.
    return next((commit for commit, name in lines if name.endswith("^{}")), lines[0][0])


def keep_wheels(wheels: Sequence[DirectWheel], home: Path, variant: Variant) -> None:
    """Copy the wheels that were built from sources into the project, beside its locks.

    Raises LockError for an image that is no project's: its lock has no place for files.
    """
    kept = [wheel for wheel in wheels if wheel.is_kept]
    if kept and not variant.base:
        raise LockError(
            f"{kept[0].address}: a wheel that is built from sources is kept in a project, and {variant.id} is in none",
            "make a project (dlc init), and name the package in its dlc.yml",
        )
    for wheel in kept:
        folder = home / KEPT
        folder.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent, ".drafts") as draft:
            (draft / wheel.path.name).write_bytes(wheel.path.read_bytes())
            (draft / wheel.path.name).replace(folder / wheel.path.name)


def drop_unused(home: Path) -> None:
    """Remove the kept wheels that no lock of the project names any more."""
    kept = sorted((home / KEPT).glob("*.whl"))
    named = "".join(path.read_text() for path in (home / LOCKS).glob("*/*.txt")) if kept else ""
    for wheel in kept:
        if hash_file(wheel) not in named:
            wheel.unlink()


def list_sources(lock: str) -> dict[str, str]:
    """Map the sha256 of each entry of a lock that is from an address to the address."""
    entries = [entry for entry in parse_entries(lock).values() if FROM in entry]
    return {digest[1]: entry.rpartition(FROM)[2].strip() for entry in entries if (digest := HASH.search(entry))}
