"""Reads the words of `dlc run` that say more than one thing, such as GROUP=VALUE. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from dlc.core.errors import UsageError
from dlc.jobs.run.job import ALL, NAME, ONLY_GROUP, Options
from dlc.jobs.run.limits import DEVICES


def read_words(
    script: str,
    *,
    groups: Sequence[str] = (),
    programs: Sequence[str] = (),
    hyperparameters: Sequence[str] = (),
    channels: Sequence[str] = (),
    environment: Sequence[str] = (),
    cpus: Sequence[str] = (),
    memory: Sequence[str] = (),
    gpus: Sequence[str] = (),
    instance_types: Sequence[str] = (),
    **plain: Any,
) -> Options:
    """Return what these words ask for; `plain` are fields of Options. Raises UsageError for the first wrong word."""
    sizes = read_sizes(groups)
    names = list(sizes) or [ONLY_GROUP]
    return Options(
        script,
        groups=sizes,
        programs=read_by_group(programs, "--program", names),
        hyperparameters=read_pairs(hyperparameters, "--hp", "KEY=VALUE"),
        channels=read_pairs(channels, "--channel", "NAME=FOLDER"),
        environment=read_variables(environment),
        cpus=read_by_group(cpus, "--cpus", names),
        memory=read_by_group(memory, "--memory", names),
        gpus=read_by_group(gpus, "--gpus", names),
        instance_types=read_by_group(instance_types, "--instance-type", names),
        **plain,
    )


def read_sizes(words: Sequence[str]) -> dict[str, int]:
    """Map groups to numbers of hosts, 0 for a group that has none."""
    sizes: dict[str, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        if not re.fullmatch(NAME, name) or not re.fullmatch(r"([1-9][0-9]{0,5})?", number):
            raise _usage_error("--group", "NAME=HOSTS, such as data_group=2", word)
        if name in sizes:
            raise _usage_error("--group", "each group once", f"{name} twice")
        sizes[name] = int(number or 0)
    return sizes


def read_by_group(words: Sequence[str], option: str, groups: Collection[str]) -> dict[str, str]:
    """Map groups to values: GROUP=VALUE for one group, VALUE alone, as that of ALL, for the others."""
    found: dict[str, str] = {}
    for word in words:
        group, value = _split_group(word, option, groups)
        if group in found:
            raise _usage_error(option, "one value for a group", f"another one: {word}")
        found[group] = value
    return found


def _split_group(word: str, option: str, groups: Collection[str]) -> tuple[str, str]:
    """Return the group that a word is for, and the value."""
    group, separator, value = word.partition("=")
    is_device = option == "--gpus" and DEVICES.match(word)
    if is_device and group in groups and value[:1].isdigit():
        hint = "another name for the group, or the job in a file, for this is a group's number or a device"
        raise _usage_error(option, hint, f"{word} and a group {group}")
    if separator and group in groups:
        return group, value
    if not separator or is_device:
        return ALL, word
    raise _usage_error(option, f"a group out of {', '.join(groups)}", repr(group))


def read_pairs(words: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Map keys to values: KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise _usage_error(option, form, repr(word))
        if key in found:
            raise _usage_error(option, f"{key} once", "it twice")
        found[key] = value
    return found


def read_variables(words: Sequence[str]) -> dict[str, str | None]:
    """Map variables to values: NAME=VALUE, or NAME for that of the shell (None)."""
    stated: dict[str, str | None] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not name:
            raise _usage_error("--env", "NAME or NAME=VALUE", repr(word))
        if name in stated:
            raise _usage_error("--env", f"{name} once", "it twice")
        stated[name] = value if separator else None
    return stated


def _usage_error(where: str, expected: str, found: str) -> UsageError:
    return UsageError(f"{where}: expected {expected}, found {found}")
