"""Makes one Dockerfile of all targets of an image: every named context is a stage in it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from dlc.buildspec.lockfile import ALL_FILES, parse_entries
from dlc.buildspec.variant import IndexedPackages
from dlc.core.checkout import Tree, read_text
from dlc.core.environment import hide_password
from dlc.core.errors import SpecError, UsageError
from dlc.debian import suites
from dlc.image_build.export.stages import (
    Stage,
    list_global_arguments,
    move_own_files,
    order_stages,
    parse_stages,
    quote_value,
    rename_sources,
    set_defaults,
)
from dlc.plan.contexts import Context, Host, Image, Pinned, Repo, TargetRef
from dlc.plan.plan import Plan
from dlc.plan.targets import Target

HOST_DOCKERFILE = "docker/export/host.Dockerfile"
LOCKS = "locks"
# An inline target is one of the base file systems, the image's settings, or a project's image.
ROOTFS, SETTINGS = "rootfs-", "settings"
# Hosts that are another one for each machine.
LOOPBACK = ("localhost", "127.", "::1", "0.")
HEADING = """\
# hadolint global ignore=DL3006,DL3022,DL3067
# {ref}
# `dlc export` wrote this file; README.md says how to build it, and which arguments and secrets it takes.
{arguments}
"""


def render_dockerfile(plan: Plan, tree: Tree, stamps: Mapping[str, str]) -> str:
    """Return the Dockerfile of the plan's one image; `stamps` are labels that are no part of its content key.

    Raises UsageError for an address that the build cannot use or that holds a login, SpecError for a Dockerfile whose
    stages cannot be put together.
    """
    image = plan.target(plan.selected[0])
    stages = _collect_stages(plan, tree)
    last = find_stage_name(image, tree)
    values = {name: value for target in plan.targets for name, value in target.args.items()}
    values |= {**_make_arguments(plan, tree), "DLC_CONTENT_KEY": image.key}
    heading = HEADING.format(
        ref=f"{image.tags[0]}, content key {image.key}", arguments=_write_global_arguments(plan, tree)
    )
    parts = [set_defaults(stage, values).text for stage in order_stages(stages, last)]
    return "\n".join([heading, *parts]) + _write_labels({**image.labels, **stamps})


def find_stage_name(target: Target, tree: Tree) -> str:
    """Return the name that a target's stage has in the one Dockerfile."""
    if not target.inline:
        return target.stage or parse_stages(read_text(tree, target.dockerfile))[-1].name
    base, _, suite = target.id.rpartition(ROOTFS)
    return f"{base}rootfs" if suites.is_system(suite) else parse_stages(target.dockerfile, SETTINGS)[-1].name


def list_indexed(plan: Plan, tree: Tree) -> dict[str, tuple[IndexedPackages, dict[str, str]]]:
    """Map each index of the buildspec that the image's lock needs to its packages: name -> entry of the lock."""
    image = plan.target(plan.selected[0])
    folder = image.context.folder if isinstance(image.context, Repo) else ""
    texts = [read_text(tree, path) for name in ALL_FILES if (path := f"{folder}/{name}") in tree]
    entries = {pin[0]: entry for text in texts for pin, entry in parse_entries(text).items()}
    found = {
        index.index: (index, {name: entries[name] for name in index.packages if name in entries})
        for index in image.indexed
    }
    return {name: (index, locked) for name, (index, locked) in found.items() if locked}


def _collect_stages(plan: Plan, tree: Tree) -> dict[str, Stage]:
    """Return every stage of the image's Dockerfiles by its name, with names of stages in place of named contexts."""
    stages = {stage.name: stage for stage in parse_stages(read_text(tree, HOST_DOCKERFILE))}
    for name, context in _list_contexts(plan.targets):
        if isinstance(context, Image):
            stages[name] = Stage(name, "${BASE_IMAGE}", "", "")
    for dockerfile, owners, own in list_dockerfiles(plan.targets, tree):
        names = {name: _name_context(name, context, plan, tree) for name, context in _list_contexts(owners)}
        for stage in own:
            add_stage(stages, move_own_files(rename_sources(stage, names), LOCKS, dockerfile), dockerfile)
    return stages


def list_dockerfiles(targets: Iterable[Target], tree: Tree) -> Iterator[tuple[str, list[Target], list[Stage]]]:
    """Yield each Dockerfile of an image, the targets that are built from it, and its stages; no root file systems."""
    needed = [target for target in targets if ROOTFS not in target.id]
    for dockerfile in dict.fromkeys(target.dockerfile for target in needed):
        owners = [target for target in needed if target.dockerfile == dockerfile]
        yield (
            dockerfile,
            owners,
            parse_stages(dockerfile if owners[0].inline else read_text(tree, dockerfile), SETTINGS),
        )


def add_stage(stages: dict[str, Stage], stage: Stage, dockerfile: str) -> None:
    """Add a stage to those of an image. Raises SpecError if there is one of that name."""
    if stage.name in stages:
        raise SpecError(
            f"{dockerfile}: stage {stage.name}: another Dockerfile of this image has a stage of that name",
            "give it another name",
        )
    stages[stage.name] = stage


def _list_contexts(targets: Iterable[Target]) -> list[tuple[str, Context]]:
    return [item for target in targets for item in target.contexts.items()]


def _name_context(name: str, context: Context, plan: Plan, tree: Tree) -> str:
    """Return the stage that a named context is."""
    if isinstance(context, TargetRef):
        return find_stage_name(plan.target(context.id), tree)
    if isinstance(context, Host) and context.name == "nothing":
        return context.name
    if isinstance(context, Host) and context.name == "wheels" and not list_indexed(plan, tree):
        return "own-wheels"
    return name


def is_of_packages(plan: Plan) -> bool:
    """Tell whether the image's Debian is made of packages, and is no base image that the user named."""
    return any(ROOTFS in target.id for target in plan.targets)


def _write_global_arguments(plan: Plan, tree: Tree) -> str:
    """Return the ARG that names the image from which the build begins."""
    images = {context for _, context in _list_contexts(plan.targets) if isinstance(context, Image)}
    lines = [f"ARG BASE_IMAGE={context.reference}" for context in images]
    return "\n".join(lines or list_global_arguments(read_text(tree, HOST_DOCKERFILE)))


def _make_arguments(plan: Plan, tree: Tree) -> dict[str, str]:
    """Return the arguments of the stages in HOST_DOCKERFILE."""
    found = {}
    for target in plan.targets:
        suite = target.id.removeprefix(ROOTFS)
        if suites.is_system(suite):
            _, *words, name = suites.mmdebstrap_command(suite)
            found = {"SUITE": name, "MMDEBSTRAP": shlex.join(words)}
    indexes = {name: index.address for name, (index, _) in list_indexed(plan, tree).items()}
    for name, address in indexes.items():
        _require_reachable(f"indexes.{name}.address", address)
    found["INDEXES"] = " ".join(f"{name}={address}" for name, address in indexes.items())
    for name, argument, setting in (
        ("efa-software", "EFA_SOFTWARE", "efa.url"),
        ("cuda-compat", "CUDA_COMPAT", "cuda_compat.url"),
    ):
        for pinned in {context for own, context in _list_contexts(plan.targets) if own == name}:
            if isinstance(pinned, Pinned):
                _require_reachable(setting, pinned.address)
                found[argument] = f"{pinned.sha256} {pinned.address}"
    return found


def _require_reachable(setting: str, address: str) -> None:
    """Raise UsageError for an address with a login, which no file may hold, and for one that only this host reaches."""
    parts = urlsplit(address)
    if parts.username or parts.password:
        raise UsageError(
            f"{setting}={hide_password(address)}: expected an address without a login, found one with a login",
            "leave it out: a build takes logins of package indexes from a .netrc (--secret id=netrc)",
        )
    if parts.scheme not in ("http", "https") or f"{parts.hostname}".startswith(LOOPBACK):
        raise UsageError(
            f"{setting}={address}: expected an address that a build on another machine can reach, found one of this "
            "machine",
            "name an address in a network; a build takes a mirror of its own by --build-arg INDEXES=NAME=ADDRESS",
        )


def _write_labels(labels: Mapping[str, str]) -> str:
    words = [f"{name}={quote_value(value)}" for name, value in sorted(labels.items())]
    return "LABEL " + " \\\n      ".join(words) + "\n"
