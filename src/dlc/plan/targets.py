"""The targets of one image: its root file system, the shared stages it takes from, its framework, and the image."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from dlc.buildspec import cuda, efa
from dlc.buildspec.locked import framework_version
from dlc.buildspec.variant import IndexedPackages, Variant
from dlc.core import labels
from dlc.core.checkout import Tree
from dlc.core.environment import PLATFORM
from dlc.debian import mmdebstrap
from dlc.debian import recorded as debian
from dlc.plan.contexts import Context, Host, Image, Pinned, Repo, TargetRef

SHARED = "docker/base/Dockerfile"
SCRIPTS = Repo("docker/scripts")
ENTRYPOINT = Repo("src/entrypoint")
UV = Host("uv", version("uv"))
WHEELS = Host("wheels")
# Stage of SHARED -> the named contexts and the arguments that it and the stages below it use. A target gets no others:
# BuildKit looks at every context that it is given.
BASE = ("rootfs", "scripts", "debian", "ca", "PYTHON_VERSION", "BASE_PACKAGES")
OFFERED = {
    "system": (*BASE, "OS_PACKAGES"),
    "tools": (*BASE, "uv"),
    "compiled": (*BASE, "uv", "wheels", "BUILD_PACKAGES", "FRAMEWORK"),
}
IMAGE = (*BASE, "entrypoint", "efa-software", "EFA_VERSION", "EFA_PACKAGES", "cuda-compat", "CUDA_MAJOR")
CUDA_IMAGE = (*IMAGE, "CUDA_REQUIRED")


@dataclass(frozen=True)
class Target:
    """One thing to build. Only images have labels and tags.

    `dockerfile` is a path from the repository's root, or the text itself where `inline` is true; `stage` is the stage
    of it that is wanted, empty for its last. `key` is the content key, empty before `dlc.plan.plan` gave it one.
    """

    id: str
    dockerfile: str
    context: Context
    stage: str = ""
    key: str = ""
    contexts: Mapping[str, Context] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    inline: bool = False
    indexed: tuple[IndexedPackages, ...] = ()  # no part of the key
    platform: str = PLATFORM

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the targets that this one takes from."""
        return tuple(context.id for context in self.contexts.values() if isinstance(context, TargetRef))


def chain(variant: Variant, tree: Tree, images: Mapping[str, Image]) -> tuple[Target, ...]:
    """All targets of one image, parents first. `images`: reference of a base image -> what it means now."""
    reference = variant.settings.base.image
    rootfs = () if reference else (_rootfs(variant.suite, tree),)
    below: Context = TargetRef(rootfs[0].id) if rootfs else images.get(reference, Image(reference))
    offered = [_shared(variant, below, stage, takes) for stage, takes in OFFERED.items()]
    framework = _framework(variant, offered)
    return (*rootfs, *offered, framework, _image(variant, tree, below, framework))


def _rootfs(suite: str, tree: Tree) -> Target:
    """Our own minimal Debian. A comment in the Dockerfile names what the tar is made from, so it is part of the key."""
    dockerfile = f"# {mmdebstrap.recipe(suite, debian.recorded(tree, suite))}\nFROM scratch\nADD rootfs.tar /\n"
    return Target(f"rootfs-{suite}", dockerfile, Host(f"rootfs-{suite}"), inline=True)


def _shared(variant: Variant, rootfs: Context, stage: str, takes: Collection[str]) -> Target:
    """A stage of the Dockerfile that all images share."""
    return Target(
        id=f"{variant.id}/{stage}",
        dockerfile=SHARED,
        context=Repo(variant.lock_folder),
        stage=stage,
        contexts={name: context for name, context in _contexts(variant, rootfs).items() if name in takes},
        args={name: value for name, value in _arguments(variant).items() if name in takes},
    )


def _framework(variant: Variant, offered: list[Target]) -> Target:
    """The framework's own Dockerfile, to its last stage."""
    stages = {target.stage: TargetRef(target.id) for target in offered}
    return Target(
        id=f"{variant.id}/training",
        dockerfile=variant.dockerfile,
        context=Repo(variant.lock_folder),
        contexts={**stages, "scripts": SCRIPTS, "wheels": WHEELS},
    )


def _image(variant: Variant, tree: Tree, rootfs: Context, framework: Target) -> Target:
    name, takes = ("cuda-image", CUDA_IMAGE) if cuda.major(variant.settings.device) else ("image", IMAGE)
    stage = _shared(variant, rootfs, name, takes)
    contexts = {**stage.contexts, "training": TargetRef(framework.id)}
    return replace(stage, id=variant.id, contexts=contexts, labels=_labels(variant, tree), tags=(variant.ref,),
                   indexed=variant.indexed)  # fmt: skip


def _contexts(variant: Variant, rootfs: Context) -> dict[str, Context]:
    software, compat = variant.settings.efa, variant.settings.cuda_compat
    return {
        "rootfs": rootfs,
        "scripts": SCRIPTS,
        "debian": Repo(debian.folder(variant.suite)),
        "entrypoint": ENTRYPOINT,
        "ca": Host("ca"),
        "uv": UV,
        "wheels": WHEELS,
        "efa-software": Pinned(software.sha256, software.url) if software.source == "installer" else Host("nothing"),
        "cuda-compat": Pinned(compat.sha256, compat.url) if compat.url else Host("nothing"),
    }


def _arguments(variant: Variant) -> dict[str, str]:
    settings = variant.settings
    return {
        "FRAMEWORK": variant.header.framework,
        "PYTHON_VERSION": settings.python,
        "BASE_PACKAGES": " ".join(settings.base.os_packages),
        "OS_PACKAGES": " ".join(settings.os_packages),
        "BUILD_PACKAGES": " ".join(settings.build_packages),
        "EFA_VERSION": settings.efa.version,
        "EFA_PACKAGES": " ".join(efa.debian_packages(settings.efa)),
        "CUDA_MAJOR": str(cuda.major(settings.device)),
        "CUDA_REQUIRED": cuda.required(settings),
    }


def _labels(variant: Variant, tree: Tree) -> dict[str, str]:
    """The labels that are part of the content key. The bake file adds revision and date."""
    header, settings = variant.header, variant.settings
    found = framework_version(tree, variant)
    title = f"{header.framework} {header.version} {header.job}, {settings.device}, Python {settings.python}"
    return {
        **settings.labels,
        labels.TITLE: title,
        labels.VERSION: found,
        labels.ID: variant.id,
        labels.FRAMEWORK: header.framework,
        labels.FRAMEWORK_VERSION: found,
        labels.PYTHON: settings.python,
        labels.DEVICE: settings.device,
        labels.OS: settings.base.image or f"debian-{variant.suite}",
        labels.PLATFORM: PLATFORM,
    }
