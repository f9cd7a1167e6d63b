"""The targets of one image: its root file system, the base, and the image itself, each with its content key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dlc.buildspec import efa
from dlc.buildspec.locked import framework_version
from dlc.buildspec.variant import IndexedPackages, Variant
from dlc.core.checkout import Tree, text
from dlc.debian import mmdebstrap
from dlc.debian import recorded as debian
from dlc.plan.content_key import content_key
from dlc.plan.recipe import require_fit

KEY_LABEL = "org.dlc.content-key"


@dataclass(frozen=True)
class Target:
    """One image to build. Context values are `target:ID`, `repo:FOLDER`, `host:NAME`, `image:REF`, `pinned:SHA@ORIGIN`.

    `dockerfile` is a path from the repository's root, or the text itself where `inline` is true.
    """

    id: str
    dockerfile: str
    context: str
    key: str = ""
    contexts: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    parent: str | None = None
    inline: bool = False
    indexed: tuple[IndexedPackages, ...] = ()  # places: no part of the key


def chain(variant: Variant, tree: Tree) -> tuple[Target, ...]:
    """All targets of one image, parents first. Raises RecipeError where a Dockerfile does not fit."""
    image = variant.settings.base.image
    rootfs = None if image else _rootfs(variant.suite, tree)
    base = _base(variant, rootfs, tree)
    return (*((rootfs,) if rootfs else ()), base, _image(variant, base, tree))


def _rootfs(suite: str, tree: Tree) -> Target:
    """Our own minimal Debian. What its tar is made from is a comment in its recipe, and so part of its key."""
    recipe = f"# {mmdebstrap.recipe(suite, debian.recorded(tree, suite))}\nFROM scratch\nADD rootfs.tar /\n"
    return _keyed(Target(f"rootfs-{suite}", recipe, f"host:rootfs-{suite}", inline=True), None, {})


def _base(variant: Variant, rootfs: Target | None, tree: Tree) -> Target:
    settings = variant.settings
    origin = re.sub(r"[^a-z0-9.]+", "-", settings.base.image.lower()).strip("-") or variant.suite
    target = Target(
        id=f"base-{origin}-py{settings.python.replace('.', '')}",
        dockerfile="docker/base/Dockerfile",
        context="repo:docker/base",
        contexts={
            "rootfs": f"target:{rootfs.id}" if rootfs else f"image:{settings.base.image}",
            "scripts": "repo:docker/scripts",
            "debian": f"repo:{debian.folder(variant.suite)}",
            "ca": "host:ca",
        },
        args={"PYTHON_VERSION": settings.python, "OS_PACKAGES": " ".join(settings.base.os_packages)},
        parent=rootfs.id if rootfs else None,
    )
    return _keyed(target, rootfs, tree)


def _image(variant: Variant, base: Target, tree: Tree) -> Target:
    settings = variant.settings
    target = Target(
        id=variant.id,
        dockerfile=variant.dockerfile,
        context=f"repo:{variant.lock_folder}",
        contexts={
            "base": f"target:{base.id}",
            "scripts": "repo:docker/scripts",
            "debian": f"repo:{debian.folder(variant.suite)}",
            "ca": "host:ca",
            "entrypoint": "repo:src/entrypoint",
            "tools": "host:tools",
            "wheels": "host:wheels",
            "efa-software": efa.context(settings.efa),
        },
        args={
            "OS_PACKAGES": " ".join(settings.os_packages),
            "BUILD_PACKAGES": " ".join(settings.build_packages),
            **efa.arguments(settings.efa),
        },
        labels=_labels(variant, tree),
        tags=(variant.ref,),
        parent=base.id,
        indexed=variant.indexed,
    )
    return _keyed(target, base, tree)


def _keyed(target: Target, parent: Target | None, tree: Tree) -> Target:
    """The target with its content key, also as a label, after its recipe was checked."""
    recipe = target.dockerfile if target.inline else text(tree, target.dockerfile)
    require_fit(target.id if target.inline else target.dockerfile, recipe, target.args, target.contexts)
    contexts = {".": target.context, **target.contexts}
    key = content_key(recipe, contexts, target.args, target.labels, parent.key if parent else "", tree)
    return replace(target, key=key, labels={**target.labels, KEY_LABEL: key})


def _labels(variant: Variant, tree: Tree) -> dict[str, str]:
    """What the image says of itself. Revision and date are added to the bake file: they are not content."""
    header, settings = variant.header, variant.settings
    version = framework_version(tree, variant)
    title = f"{header.framework} {header.version} {header.job}, {settings.device}, Python {settings.python}"
    return {
        **settings.labels,
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.version": version,
        "org.dlc.id": variant.id,
        "org.dlc.framework": header.framework,
        "org.dlc.framework.version": version,
        "org.dlc.python": settings.python,
        "org.dlc.device": settings.device,
        "org.dlc.os": settings.base.image or f"debian-{variant.suite}",
    }
