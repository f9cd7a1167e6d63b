"""The plan: every target that the selected images need, parents first, with its content key, and what is skipped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlc.buildspec.lockfile import require_fresh, require_sound
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core import labels
from dlc.core.checkout import Tree, files_below, read_text
from dlc.core.errors import SelectorError
from dlc.plan.contexts import Context, Image, Repo, TargetRef, make_identity
from dlc.plan.own_image import list_targets
from dlc.plan.targets import Target


@dataclass(frozen=True)
class Decision:
    """Whether a target has to be built, and why."""

    id: str
    build: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """Targets with parents first, and the ids among them that were asked for."""

    targets: tuple[Target, ...]
    selected: tuple[str, ...]

    @property
    def refs(self) -> tuple[str, ...]:
        """Return the Docker references of the images that were asked for."""
        return tuple(tag for identifier in self.selected for tag in self.target(identifier).tags)

    @property
    def all_refs(self) -> tuple[str, ...]:
        """Return the same and those of the released images below them."""
        return tuple(tag for target in self.targets for tag in target.tags)

    @property
    def platforms(self) -> tuple[str, ...]:
        """Return the platforms of what it builds, each once."""
        return tuple(sorted({target.platform for target in self.targets}))

    def target(self, identifier: str) -> Target:
        """Return the target of this id. Raises SelectorError if the plan has none."""
        for target in self.targets:
            if target.id == identifier:
                return target
        raise SelectorError(f"{identifier}: not in this plan", "`dlc plan` shows what is")

    def without(self, skipped: Sequence[str]) -> Plan:
        """Return the plan that is left if these selected images need no build; parents only they need go as well."""
        keep = [identifier for identifier in self.selected if identifier not in skipped]
        needed = {ancestor for identifier in keep for ancestor in self.ancestry(identifier)}
        return Plan(tuple(target for target in self.targets if target.id in needed), tuple(keep))

    def begin_from(self, existing: Mapping[str, str]) -> Plan:
        """Return the plan that takes the released images below from an engine which has them, by their content keys.

        Layers are the same bytes: nothing below has to be in the engine's build cache. `existing` as in `decisions`.
        """
        there: dict[str, Context] = {
            target.id: Image(target.tags[0], local=True)
            for target in self.targets
            if target.id not in self.selected and target.tags and existing.get(target.tags[0]) == target.key
        }
        taken = tuple(replace(target, contexts=_replace_links(target, there)) for target in self.targets)
        return Plan(taken, self.selected).without(())

    def ancestry(self, identifier: str) -> set[str]:
        """Return the id itself and those of all targets below it."""
        return {identifier}.union(*(self.ancestry(parent) for parent in self.target(identifier).parents))

    def decisions(self, existing: Mapping[str, str]) -> tuple[Decision, ...]:
        """Decide what to build and what to skip.

        `existing` is the content key of each image that is there, by its ref.
        """
        found = [_decide(self.target(identifier), existing) for identifier in self.selected]
        left = {target.id for target in self.without([d.id for d in found if not d.build]).targets}
        parents = [
            Decision(t.id, t.id in left, "an image above needs it" if t.id in left else "only skipped images need it")
            for t in self.targets if t.id not in self.selected
        ]  # fmt: skip
        return (*parents, *found)

    def as_dict(self) -> dict[str, object]:
        """Return a value for JSON."""
        return {"selected": list(self.selected), "targets": [_target_as_dict(target) for target in self.targets]}


def _replace_links(target: Target, there: Mapping[str, Context]) -> dict[str, Context]:
    """Return a target's contexts with others in the place of links to these targets."""
    return {
        name: there.get(context.id, context) if isinstance(context, TargetRef) else context
        for name, context in target.contexts.items()
    }


def _target_as_dict(target: Target) -> dict[str, object]:
    """Return its fields, contexts as text."""
    contexts = {name: str(context) for name, context in target.contexts.items()}
    indexed = [vars(packages) for packages in target.indexed]
    own = {"context": str(target.context), "contexts": contexts, "indexed": indexed, "parents": target.parents}
    return {**vars(target), **own}


def _decide(target: Target, existing: Mapping[str, str]) -> Decision:
    for tag in target.tags:
        if tag not in existing:
            return Decision(target.id, True, f"no image {tag}")
        if existing[tag] != target.key:
            return Decision(target.id, True, f"{tag} was built from {existing[tag][:12]}, wanted {target.key[:12]}")
    return Decision(target.id, False, f"up to date: {', '.join(target.tags)} has content key {target.key[:12]}")


def make_plan(
    tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = (), images: Mapping[str, Image] | None = None
) -> Plan:
    """Make the plan for the images that `globs` select, with `--set` texts applied.

    `images` is as `plan_variants` takes it.

    Raises SpecError, SelectorError and UsageError as `load_variants` does, and LockError for missing and stale locks
    and for those that no image may have.
    """
    return plan_variants(load_variants(tree, globs, sets), tree, globs, sets, images)


def plan_variants(
    variants: Sequence[Variant],
    tree: Tree,
    globs: Sequence[str] = (),
    sets: Sequence[str] = (),
    images: Mapping[str, Image] | None = None,
) -> Plan:
    """Make the plan for variants that are loaded already; `globs` and `sets` are how the user asked for them.

    `images`: reference of a base image -> what it means now, from `dlc.image_build.base_images`. Without it, the
    content key holds the reference alone.
    """
    require_fresh(tree, variants, globs, sets)
    require_sound(tree, variants)
    targets: dict[str, Target] = {}
    for variant in variants:
        for target in list_targets(variant, tree, images or {}):
            if target.id not in targets:
                targets[target.id] = _add_key(target, targets, tree)
    return Plan(tuple(targets.values()), tuple(variant.id for variant in variants))


def _add_key(target: Target, earlier: Mapping[str, Target], tree: Tree) -> Target:
    """Return the target with its content key, also as a label if it is an image."""
    dockerfile = target.dockerfile if target.inline else read_text(tree, target.dockerfile)
    key = make_content_key(target, dockerfile, {name: earlier[name].key for name in target.parents}, tree)
    return replace(target, key=key, labels={**target.labels, labels.KEY: key} if target.tags else {})


def make_content_key(target: Target, dockerfile: str, keys: Mapping[str, str], tree: Tree) -> str:
    """Return sha256 in hex over the Dockerfile's text and stage, contexts, arguments, labels and platform of a target.

    A `Repo` context counts with every file below it, a `TargetRef` with that target's key (`keys`: id -> key), an
    `Image` with its digest, if it has one. What a `Host` context holds is pinned by locks that are themselves in a
    `Repo` context, or by its version. Revision, dates and paths of the host are no part of it.
    """
    contexts = {".": target.context, **target.contexts}
    files = {
        name: {path: (file.digest, file.executable)
               for path, file in files_below(tree, context.folder).items()}
        for name, context in contexts.items() if isinstance(context, Repo)
    }  # fmt: skip
    material = {
        "dockerfile": dockerfile,
        "stage": target.stage,
        "platform": target.platform,
        "contexts": {
            name: keys[context.id] if isinstance(context, TargetRef) else make_identity(context)
            for name, context in contexts.items()
        },
        "files": files,
        "args": dict(target.args),
        "labels": dict(target.labels),
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()
