"""Decides which index each package is resolved from: the user's own, else the one that the buildspec names for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dlc.buildspec.variant import IndexedPackages, normal_name
from dlc.core.environment import local_wheel_folders
from dlc.core.package_indexes import OwnIndexes, mirror_variable, mirrored, own_indexes, shown, wheel_folder
from dlc.core.process import run

PROBE_SECONDS = 300.0
# uv looks where it is told: its folders are arguments, those that a build has too.
ALONE = {"UV_NO_CONFIG": "1", "UV_FIND_LINKS": ""}


def needed(
    indexed: Sequence[IndexedPackages], requirements: Sequence[str], argv: Sequence[str]
) -> tuple[IndexedPackages, ...]:
    """The indexes of the buildspec that a resolution needs, each with the packages that it needs from there.

    A package that the user's own folders or indexes have in the wanted version comes from there. `argv` is the
    resolver's command.
    """
    found = []
    for index in indexed:
        asked = [requirement for requirement in requirements if normal_name(requirement) in index.packages]
        missing = [each for each in asked if not _users_own(each, tuple(argv), own_indexes(os.environ))]
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
def _users_own(requirement: str, argv: tuple[str, ...], own: OwnIndexes) -> bool:
    """Whether the user's folders or indexes have what is asked for.

    The default index counts for local versions (`+cpu`) only: others may be another build of the same version there.
    """
    indexes = own.all if "+" in requirement else own.extra
    if not indexes and not local_wheel_folders():
        return False
    where = {"UV_DEFAULT_INDEX": indexes[0], "UV_INDEX": " ".join(indexes[1:])} if indexes else {}
    alone = [] if indexes else ["--no-index"]  # uv reads no variable for it
    done = run(
        [*argv, "-", "--no-deps", *alone], stdin=requirement, env={**ALONE, **where},
        check=False, timeout=PROBE_SECONDS,
    )  # fmt: skip
    return done.returncode == 0
