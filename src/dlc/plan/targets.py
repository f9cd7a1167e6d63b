"""The targets of one image: its root file system, the shared stages it takes from, its framework, and the image."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dlc.buildspec import cuda_efa
from dlc.buildspec.lockfile import FRAMEWORK, TRAINING, framework_version, locked_versions, parse_versions
from dlc.buildspec.variant import IndexedPackages, Variant
from dlc.core import labels
from dlc.core.checkout import Tree, read_text
from dlc.core.environment import PLATFORM
from dlc.core.errors import SpecError
from dlc.debian import suites
from dlc.plan.contexts import Context, Host, Image, Pinned, Repo, TargetRef

SHARED = "docker/base/Dockerfile"
SCRIPTS = Repo("docker/scripts")
ENTRYPOINT = Repo("src/entrypoint")
RUNTIME = Repo("src/dlc_runtime")
CHANNEL = Repo("src/dlc_channel")
# The hashes of the uv that installs an image's packages. Content keys have its version, whatever uv this host has.
UV_LOCK = "docker/export/prepare/uv.txt"
# What a step needs of the target `tools` to run in a layer that begins from nothing.
TOOLS = ("/usr", "/bin", "/lib", "/lib64", "/scripts")
# What wheels of NVIDIA say of their licence: it allows use and to hand on, and is no open one.
NVIDIA, NVIDIA_LICENCE = "nvidia-", "LicenseRef-NVIDIA-Proprietary"
# Stage of SHARED -> the named contexts and the arguments that it and the stages below it use. A target gets no others:
# BuildKit looks at every context that it is given.
BASE = ("rootfs", "scripts", "debian", "ca", "PYTHON_VERSION", "BASE_PACKAGES")
TOOLS_TAKE = ("tools-rootfs", "scripts", "ca", "uv", "TOOLS_PACKAGES")
OFFERED = {
    "tools": TOOLS_TAKE,
    "skeleton": TOOLS_TAKE,
    "cuda": (*TOOLS_TAKE, "wheels"),
    "compiled": (*BASE, "uv", "wheels", "BUILD_PACKAGES", "FRAMEWORK"),
}
# Stage of any Dockerfile -> the lock files from which its steps install wheels.
INSTALLS = {
    "cuda": ("cuda.txt",),
    "compiled": ("cuda.txt", FRAMEWORK, "compiled.txt"),
    "framework": (FRAMEWORK,),
    "training": (TRAINING,),
}
OURS = ("entrypoint", "runtime", "channel")
IMAGE = (*BASE, "OS_PACKAGES", *OURS, "efa-software", "EFA_VERSION", "EFA_PACKAGES", "cuda-compat", "CUDA_MAJOR")
CUDA_IMAGE = (*IMAGE, "CUDA_REQUIRED")


@dataclass(frozen=True)
class Target:
    """One thing to build. Only images have labels and tags.

    `dockerfile` is a path from the repository's root, or the text itself if `inline` is true; `stage` is the stage
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
    # It is no part of the key.
    indexed: tuple[IndexedPackages, ...] = ()
    platform: str = PLATFORM

    @property
    def parents(self) -> tuple[str, ...]:
        """Return ids of the targets that this one takes from."""
        return tuple(context.id for context in self.contexts.values() if isinstance(context, TargetRef))


def make_targets(variant: Variant, tree: Tree, images: Mapping[str, Image]) -> tuple[Target, ...]:
    """Make all targets of one image, parents first. `images`: reference of a base image -> what it means now."""
    reference = variant.settings.base.image
    rootfs = () if reference else (_make_rootfs(variant.system, tree), _make_tools_rootfs(variant.system))
    named = images.get(reference, Image(reference))
    below: dict[str, Context] = {
        "rootfs": TargetRef(rootfs[0].id) if rootfs else named,
        "tools-rootfs": TargetRef(rootfs[1].id) if rootfs else named,
        "uv": name_uv(variant, tree),
    }
    lowest = "cuda" if cuda_efa.shared_packages(locked_versions(tree, variant)) else "skeleton"
    stages = {"tools": "tools", "lowest": lowest, "compiled": "compiled"}
    offered = {name: _make_shared(variant, below, stage, OFFERED[stage]) for name, stage in stages.items()}
    framework, training = _make_framework_and_training(variant, offered)
    settings = _make_settings(variant, training)
    image = _make_image(variant, tree, below, settings or training)
    found = (*rootfs, *offered.values(), framework, training, *([settings] if settings else []), image)
    return tuple(replace(target, platform=variant.platform.name) for target in found)


def name_uv(variant: Variant, tree: Tree) -> Host:
    """Return the uv that installs the packages of an image."""
    return Host(f"uv{variant.platform.suffix}", read_uv_version(tree))


def read_uv_version(tree: Tree) -> str:
    """Return the version of the uv with which these recipes make images. Raises SpecError if they record none."""
    found = parse_versions(read_text(tree, UV_LOCK)).get("uv", "")
    if not found:
        raise SpecError(f"{UV_LOCK}: expected uv==VERSION with its hashes, found none", "make tool-lock in a checkout")
    return found


def _make_rootfs(suite: str, tree: Tree) -> Target:
    """Return our own minimal Debian.

    A comment in the Dockerfile names what the tar is made from, so it is part of the key.
    """
    dockerfile = f"# {suites.base_recipe(suite, suites.read_recorded(tree, suite))}\nFROM scratch\nADD rootfs.tar /\n"
    return Target(f"rootfs-{suite}", dockerfile, Host(f"rootfs-{suite}"), inline=True)


def _make_tools_rootfs(suite: str) -> Target:
    """Return the same for what installs Python packages.

    It has the versions that this host has: none of it is in an image.
    """
    dockerfile = f"# {shlex.join(suites.mmdebstrap_command(suite))}\nFROM scratch\nADD rootfs.tar /\n"
    return Target(f"tools-rootfs-{suite}", dockerfile, Host(f"tools-rootfs-{suite}"), inline=True)


def _make_shared(variant: Variant, below: Mapping[str, Context], stage: str, takes: Collection[str]) -> Target:
    """Return a stage of the Dockerfile that all images share."""
    return Target(
        id=f"{variant.id}/{stage}",
        dockerfile=SHARED,
        context=Repo(variant.lock_folder),
        stage=stage,
        contexts={name: context for name, context in _make_contexts(variant, below, stage).items() if name in takes},
        args={name: value for name, value in _make_arguments(variant).items() if name in takes},
    )


def _make_framework_and_training(variant: Variant, offered: Mapping[str, Target]) -> tuple[Target, Target]:
    """Return both stages of the framework's own Dockerfile.

    The framework is no later than its lock; the packages are above it.

    `offered`: the name that this Dockerfile has for a target -> the target.
    """
    stages = {name: TargetRef(target.id) for name, target in offered.items()}
    wheels = {stage: name_wheels(variant, *INSTALLS[stage]) for stage in ("framework", "training")}
    framework = Target(
        id=f"{variant.id}/framework",
        dockerfile=variant.dockerfile,
        context=Repo(variant.lock_folder),
        stage="framework",
        contexts={
            "tools": stages["tools"],
            "lowest": stages["lowest"],
            "wheels": name_wheels(variant, *INSTALLS["framework"]),
        },
    )
    own: dict[str, Context] = {
        "framework": TargetRef(framework.id), "scripts": SCRIPTS, "wheels": wheels["training"]
    }  # fmt: skip
    return framework, replace(framework, id=f"{variant.id}/training", stage="", contexts={**stages, **own})


def _make_settings(variant: Variant, training: Target) -> Target | None:
    """Return what the buildspec says that is no package: environment variables, and names of packages in others."""
    lines = write_variables(variant.settings.env)
    contexts: dict[str, Context] = {"training": TargetRef(training.id)}
    if variant.provided:
        lines.insert(0, _write_stand_ins(variant.provided))
        contexts |= {"scripts": SCRIPTS, "tools": training.contexts["tools"]}
    if not lines:
        return None
    dockerfile = "".join(["FROM training\n", *lines])
    return Target(f"{variant.id}/settings", dockerfile, Host("nothing"), contexts=contexts, inline=True)


def write_variables(env: Mapping[str, str]) -> list[str]:
    """Write a Dockerfile's line for each environment variable."""
    return [f"ENV {name}={_quote(value)}\n" for name, value in sorted(env.items())]


def _write_stand_ins(provided: Mapping[str, str]) -> str:
    """Return the step that records names of packages which others contain."""
    words = " ".join(f"{name} {provider}" for name, provider in provided.items())
    mounts = [f"--mount=type=bind,from=tools,source={path},target={path}" for path in TOOLS]
    mounts.append("--mount=type=bind,from=scripts,source=stand-ins,target=/stand-ins")
    clamp = "/usr/bin/python3 -I -S /scripts/clamp/clamp.py"
    return f"RUN {' '.join(mounts)} /stand-ins/install.sh {words} && {clamp}\n"


def _quote(value: str) -> str:
    """Return a value as a Dockerfile takes it literally: nothing in it is a variable or ends it."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def _make_image(variant: Variant, tree: Tree, below: Mapping[str, Context], training: Target) -> Target:
    name, takes = ("cuda-image", CUDA_IMAGE) if cuda_efa.device_major(variant.settings.device) else ("image", IMAGE)
    stage = _make_shared(variant, below, name, takes)
    contexts = {**stage.contexts, "training": TargetRef(training.id)}
    return replace(stage, id=variant.id, contexts=contexts, labels=make_labels(variant, tree), tags=(variant.ref,),
                   indexed=variant.indexed)  # fmt: skip


def name_wheels(variant: Variant, *files: str) -> Host:
    """Return the folder with the wheels of these lock files. An own wheel in it changes no step but those that use it.

    What is in it is pinned by the files, so their names are no part of a content key.
    """
    return Host("wheels", locks=tuple(f"{variant.lock_folder}/{name}" for name in files))


def _make_contexts(variant: Variant, below: Mapping[str, Context], stage: str) -> dict[str, Context]:
    software, compat = variant.settings.efa, variant.settings.cuda_compat
    return {
        **below,
        "scripts": SCRIPTS,
        "debian": Repo(suites.versions_folder(variant.system)),
        "entrypoint": ENTRYPOINT,
        "runtime": RUNTIME,
        "channel": CHANNEL,
        "ca": Host("ca"),
        "wheels": name_wheels(variant, *INSTALLS.get(stage, ())),
        "efa-software": Pinned(software.sha256, software.url) if software.source == "installer" else Host("nothing"),
        "cuda-compat": Pinned(compat.sha256, compat.url) if compat.url else Host("nothing"),
    }


def _make_arguments(variant: Variant) -> dict[str, str]:
    settings = variant.settings
    return {
        "FRAMEWORK": variant.header.framework,
        "PYTHON_VERSION": settings.python,
        # Of the base what belongs to Python, and `strip`.
        "TOOLS_PACKAGES": " ".join(["binutils", *(n for n in settings.base.os_packages if n.startswith("python3"))]),
        "BASE_PACKAGES": " ".join(settings.base.os_packages),
        "OS_PACKAGES": " ".join(settings.os_packages),
        "BUILD_PACKAGES": " ".join(cuda_efa.build_packages(settings)),
        "EFA_VERSION": settings.efa.version,
        "EFA_PACKAGES": " ".join(cuda_efa.efa_packages(settings.efa)),
        "CUDA_MAJOR": str(cuda_efa.device_major(settings.device)),
        "CUDA_REQUIRED": cuda_efa.make_cuda_requirement(settings),
    }


def make_labels(variant: Variant, tree: Tree) -> dict[str, str]:
    """Return the labels that are part of the content key. The bake file adds revision and date."""
    header, settings = variant.header, variant.settings
    found = framework_version(tree, variant)
    licences = settings.labels.get(labels.LICENSES, "")
    # PyTorch 1.10's own package holds CUDA.
    has_cuda = settings.device != cuda_efa.CPU or any(
        name.startswith(NVIDIA) for name in locked_versions(tree, variant)
    )
    if licences and has_cuda:
        licences += f" AND {NVIDIA_LICENCE}"
    title = f"{header.framework} {header.version} {header.job}, {settings.device}, Python {settings.python}"
    # A label of linux/amd64 has no platform in it, from before there were others.
    title += f", {variant.platform.architecture}" if variant.platform.suffix else ""
    own = {labels.FLAVOR: settings.flavor, labels.UNSUPPORTED: header.unsupported}
    return {
        **settings.labels,
        **({labels.LICENSES: licences} if licences else {}),
        labels.TITLE: title,
        labels.VERSION: found,
        labels.ID: variant.id,
        labels.FRAMEWORK: header.framework,
        labels.FRAMEWORK_VERSION: found,
        labels.PYTHON: settings.python,
        labels.DEVICE: settings.device,
        labels.OS: settings.base.image or f"debian-{variant.suite}",
        labels.PLATFORM: settings.platform,
        **{name: value for name, value in own.items() if value},
    }
