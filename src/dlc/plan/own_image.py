"""The targets of a project's image: those of the released image, and thin layers on top of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlc.buildspec.lockfile import ADDED, is_thin, list_changes, parse_entries, read_entries
from dlc.buildspec.models import User
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.debian import suites
from dlc.plan.contexts import Context, Image, Repo, TargetRef
from dlc.plan.targets import SCRIPTS, SHARED, Target, make_labels, make_targets, name_uv, name_wheels, write_variables

DOCKERFILE = "docker/project/Dockerfile"
PROJECT_SCRIPTS = Repo("docker/project")
# The image below a user of its own, which root runs in.
ROOTS = "of-root"
# Settings that a project changes on top of its released image; all others go into layers below.
ON_TOP = ("flavor", "repository", "platforms", "os_packages", "env", "user", "labels", "indexes", "budget")


def list_targets(variant: Variant, tree: Tree, images: Mapping[str, Image]) -> tuple[Target, ...]:
    """List all targets of an image, parents first. `images`: as `make_targets` takes it."""
    if variant.base and is_thin(tree, variant):
        released = find_released(variant, variant.base)
        below = make_targets(released, tree, images)
        layers = _make_layers(variant, released, tree, below[-1])
    elif user := variant.settings.user:
        *parts, whole = make_targets(variant, tree, images)
        image = replace(whole, id=f"{variant.id}/{ROOTS}", labels={}, tags=(), indexed=())
        below = (*parts, image)
        own = _make_user(variant, user, image)
        layers = [own, _make_own_image(variant, {}, tree, own)]
    else:
        return make_targets(variant, tree, images)
    return (*below, *(replace(target, platform=variant.platform.name) for target in layers))


def find_released(variant: Variant, base: Variant) -> Variant:
    """Return the released image that a project starts from, with what --set changes in the layers below the project's.

    Without --set it is the released image itself.
    """
    kept = {name: getattr(base.settings, name) for name in ON_TOP}
    packages = base.settings.packages
    return replace(base, settings=variant.settings.model_copy(update={**kept, "packages": packages}))


def list_added_system(variant: Variant, released: Variant) -> list[str]:
    """List the Debian packages that a project adds."""
    there = (*released.settings.base.os_packages, *released.settings.os_packages)
    return [name for name in variant.settings.os_packages if name not in there]


def _make_layers(variant: Variant, released: Variant, tree: Tree, image: Target) -> list[Target]:
    """Return the targets on top of the released image: a layer each, if there is something in it, and the settings."""
    layers: list[Target] = []
    top = image
    if names := list_added_system(variant, released):
        apt = _make_bundle(variant, "apt", {"scripts": SCRIPTS, "ca": image.contexts["ca"],
                                            "debian": Repo(suites.versions_folder(variant.system))})  # fmt: skip
        takes: dict[str, Context] = {"released": TargetRef(image.id), "apt": TargetRef(apt.id),
                                     "project-scripts": PROJECT_SCRIPTS}  # fmt: skip
        top = _make_layer(variant, "added-system", takes, {"ADDED_PACKAGES": " ".join(names)})
        layers += [apt, top]
    if parse_entries(read_entries(tree, variant)[ADDED]):
        contexts = {"scripts": SCRIPTS, "ca": image.contexts["ca"], "uv": name_uv(variant, tree)}
        bundle = _make_bundle(variant, "python-packages", contexts)
        takes = {"with-system": TargetRef(top.id), "python-packages": TargetRef(bundle.id), "scripts": SCRIPTS,
                 "wheels": name_wheels(variant, ADDED)}  # fmt: skip
        layers += [bundle, top := _make_layer(variant, "added-packages", takes, {})]
    if user := variant.settings.user:
        layers.append(top := _make_user(variant, user, top))
    own_env = {name: value for name, value in variant.settings.env.items() if released.settings.env.get(name) != value}
    return [*layers, _make_own_image(variant, own_env, tree, top)]


def _make_user(variant: Variant, user: User, below: Target) -> Target:
    takes: dict[str, Context] = {
        "with-packages": TargetRef(below.id),
        "project-scripts": PROJECT_SCRIPTS,
        "scripts": SCRIPTS,
    }
    return _make_layer(variant, "added-user", takes, {"USER_NAME": user.name, "USER_ID": user.uid})


def _make_bundle(variant: Variant, stage: str, contexts: Mapping[str, Context]) -> Target:
    """Return a stage of the shared Dockerfile that holds what a step needs."""
    return Target(f"{variant.id}/{stage}", SHARED, Repo(variant.lock_folder), stage, contexts=contexts)


def _make_layer(variant: Variant, stage: str, contexts: Mapping[str, Context], args: Mapping[str, str]) -> Target:
    return Target(
        f"{variant.id}/{stage}", DOCKERFILE, Repo(variant.lock_folder), stage, contexts=contexts, args=args
    )  # fmt: skip


def _make_own_image(variant: Variant, env: Mapping[str, str], tree: Tree, top: Target) -> Target:
    """Return the image: the layers below, with the project's variables, its user and its own content key."""
    lines = ["FROM added AS own-image\n", *write_variables(env)]
    lines += ["ARG DLC_CONTENT_KEY\n", "ENV DLC_CONTENT_KEY=${DLC_CONTENT_KEY}\n"]
    if user := variant.settings.user:
        lines.append(f"USER {user.name}\n")
    return Target(
        variant.id, "".join(lines), Repo(variant.lock_folder), contexts={"added": TargetRef(top.id)}, inline=True,
        labels=make_labels(variant, tree), tags=(variant.ref,), indexed=variant.indexed,
    )  # fmt: skip


def explain_layers(changed: Sequence[str], base: Variant) -> list[str]:
    """Return lines that say why an image has layers of its own in the place of released ones; none if it has not."""
    head = f"  package layers of its own, in the place of those of {base.id}:"
    return [head, *(f"    {each}" for each in changed)] if changed else []


def explain_own_layers(variants: Sequence[Variant], tree: Tree) -> list[str]:
    """Return these lines for the images of projects, from their locks."""
    owned = [(variant, variant.base) for variant in variants if variant.base]
    return [line for variant, base in owned for line in explain_layers(list_changes(tree, variant), base)]
