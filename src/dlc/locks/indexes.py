"""Decides which index each package is resolved from: the user's own, else the one that the buildspec names for it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain

from dlc.buildspec.variant import IndexedPackages, normal_name
from dlc.core.atomic_files import scratch_folder
from dlc.core.environment import (
    INDEX_VARIABLES,
    OwnIndexes,
    local_wheel_folders,
    mirror_variable,
    mirrored,
    own_indexes,
    shown,
    wheel_folder,
)
from dlc.core.errors import PackageIndexError
from dlc.core.process import run

PROBE_SECONDS = 300.0
NO_ANSWER = re.compile("error sending request|HTTP status server error|429 Too Many Requests")
REFUSED = re.compile(r"search failed because of status code failure: (40[137] [A-Za-z ]+)")
NOT_FOUND = "was not found in the package registry"
NO_PAGE = "Unsupported `Content-Type`"  # of what no index answers
NO_SOLUTION = 1  # uv's exit code; 2 is an error
SAID_CHARACTERS = 500
# uv looks where it is told: its folders are arguments, those that a build has too.
ALONE = {"UV_NO_CONFIG": "1", "UV_FIND_LINKS": ""}


def needed(
    indexed: Sequence[IndexedPackages], requirements: Sequence[str], argv: Sequence[str]
) -> tuple[IndexedPackages, ...]:
    """The indexes of the buildspec that a resolution needs, each with the packages that it needs from there.

    A package that the user's own folders or indexes have in the wanted version comes from there. `argv` is the
    resolver's command. Raises PackageIndexError for an index of the user that fails: it may have the package.
    """
    found = []
    for index in indexed:
        asked = [requirement for requirement in requirements if normal_name(requirement) in index.packages]
        missing = [each for each in asked if _lacking(each, tuple(argv), own_indexes(os.environ)) is not None]
        if missing:
            names = tuple(normal_name(requirement) for requirement in missing)
            found.append(IndexedPackages(index.index, index.address, names, index.python, index.glibc))
    return tuple(found)


def project(indexes: Sequence[IndexedPackages], requirements: Sequence[str], environment: Mapping[str, str]) -> str:
    """A pyproject.toml with the requirements, and for some packages the only index that they may come from.

    The project's name appears in the resolver's messages: "because buildspec depends on". The text may hold the
    credentials of a mirror: write it where no other user can read it, and remove it.
    """
    lines = ["[project]", 'name = "buildspec"', 'version = "0"', f"dependencies = {json.dumps(list(requirements))}"]
    for index in indexes:
        address = mirrored(index.index, index.address, environment)
        lines += ["[[tool.uv.index]]", f"name = {json.dumps(index.index)}", f"url = {json.dumps(address)}"]
        lines += ["explicit = true", *(['format = "flat"'] if wheel_folder(address) else [])]
    lines += ["[tool.uv.sources]"]
    lines += [f"{name} = {{ index = {json.dumps(index.index)} }}" for index in indexes for name in index.packages]
    return "\n".join([*lines, ""])


def environment() -> dict[str, str]:
    """Variables that point uv at the user's indexes, whichever client's variables name them."""
    own = own_indexes(os.environ)
    return {**ALONE, "UV_DEFAULT_INDEX": own.default, "UV_INDEX": " ".join(own.extra)}


def places(indexes: Sequence[IndexedPackages]) -> str:
    """Where packages of these indexes were looked for, one line for each index, without credentials."""
    own = [str(folder) for folder in local_wheel_folders()]
    own += [shown(address) for address in own_indexes(os.environ).all]
    lines = []
    for index in indexes:
        address = shown(mirrored(index.index, index.address, os.environ))
        lines.append(f"{', '.join(index.packages)}: looked in {', '.join([*own, f'{index.index} ({address})'])}")
    return "\n".join(lines)


def own_answers(indexes: Sequence[IndexedPackages], requirements: Sequence[str], argv: Sequence[str]) -> list[str]:
    """What the user's own folders and indexes answered about what these indexes were needed for, a line for each."""
    names = {name for index in indexes for name in index.packages}
    own = own_indexes(os.environ)
    answers = {each: _lacking(each, tuple(argv), own) for each in requirements if normal_name(each) in names}
    return [
        f"{requirement}: your own folders and indexes: {answer}" for requirement, answer in answers.items() if answer
    ]


def refused(said: str) -> str:
    """The status with which an index refused, in what uv says with --verbose; empty where none did."""
    found = REFUSED.search(said)
    return found[1] if found else ""


def redacted(indexes: Sequence[IndexedPackages], text: str) -> str:
    """The text without the credentials of these indexes' mirrors."""
    for index in indexes:
        address = mirrored(index.index, index.address, os.environ)
        text = text.replace(address, shown(address))
    return text


def remedy(indexes: Sequence[IndexedPackages]) -> str:
    """What to do if an index of the buildspec does not have a package, or does not answer."""
    variables = " or ".join(f"{mirror_variable(index.index)}=ADDRESS" for index in indexes)
    place = f"name a mirror of the index with {variables}, or a folder that holds the wheels in UV_FIND_LINKS"
    return f"{place} (uv.toml and pip.conf are not read)"


@lru_cache
def _lacking(requirement: str, argv: tuple[str, ...], own: OwnIndexes) -> str | None:
    """Why the user's folders and indexes do not have what is asked for, in uv's words; None where they have it.

    The default index counts for local versions (`+cpu`) only: others may be another build of the same version there.
    """
    indexes = own.all if "+" in requirement else own.extra
    if not indexes and not local_wheel_folders():
        return ""
    where = {"UV_DEFAULT_INDEX": indexes[0], "UV_INDEX": " ".join(indexes[1:])} if indexes else {}
    alone = [] if indexes else ["--no-index"]  # uv reads no variable for it
    with scratch_folder("dlc-lock-") as folder:
        done = run(
            [*argv, "-", "--no-deps", *alone], stdin=requirement, env={**ALONE, **where, "TMPDIR": str(folder)},
            check=False, timeout=PROBE_SECONDS,
        )  # fmt: skip
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.split())
    for address in indexes:
        said = said.replace(address, shown(address))
    if done.returncode != NO_SOLUTION or NO_ANSWER.search(said) or NO_PAGE in said:
        raise PackageIndexError(
            f"your own package index failed when it was asked for {requirement}: {said[-SAID_CHARACTERS:]}",
            "check that it answers, or take it out of " + ", ".join(chain(*INDEX_VARIABLES.values())),
        )
    return said[:SAID_CHARACTERS]
