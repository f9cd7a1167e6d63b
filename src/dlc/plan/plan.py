"""The plan: every target that the selected images need, parents first, and what of it can be skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from dlc.buildspec.lock_check import require_sound
from dlc.buildspec.locked import require_fresh
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.errors import SelectorError, SpecError
from dlc.plan.targets import Target, chain


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

    def target(self, identifier: str) -> Target:
        """The target of this id. Raises SelectorError when the plan has none."""
        for target in self.targets:
            if target.id == identifier:
                return target
        raise SelectorError(f"{identifier}: not in this plan", "`dlc plan` shows what is")

    def without(self, skipped: Sequence[str]) -> Plan:
        """The plan that is left when these selected images need no build; parents only they need go as well."""
        keep = [identifier for identifier in self.selected if identifier not in skipped]
        needed = {ancestor for identifier in keep for ancestor in self.ancestry(identifier)}
        return Plan(tuple(target for target in self.targets if target.id in needed), tuple(keep))

    def ancestry(self, identifier: str) -> list[str]:
        """The id itself and its parents, nearest first."""
        chain: list[str] = []
        following: str | None = identifier
        while following is not None:
            chain.append(following)
            following = self.target(following).parent
        return chain

    def decisions(self, existing: Mapping[str, str]) -> tuple[Decision, ...]:
        """What to build and what to skip, given the content key of each image that is already there, by its ref."""
        found = [_decision(self.target(identifier), existing) for identifier in self.selected]
        left = {target.id for target in self.without([d.id for d in found if not d.build]).targets}
        parents = [
            Decision(t.id, t.id in left, "an image above needs it" if t.id in left else "only skipped images need it")
            for t in self.targets if t.id not in self.selected
        ]  # fmt: skip
        return (*parents, *found)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"selected": list(self.selected), "targets": [asdict(target) for target in self.targets]}


def _decision(target: Target, existing: Mapping[str, str]) -> Decision:
    for tag in target.tags:
        if tag not in existing:
            return Decision(target.id, True, f"no image {tag}")
        if existing[tag] != target.key:
            return Decision(target.id, True, f"{tag} was built from {existing[tag][:12]}, wanted {target.key[:12]}")
    return Decision(target.id, False, f"up to date: {', '.join(target.tags)} has content key {target.key[:12]}")


def make_plan(tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = ()) -> Plan:
    """The plan for the images that `globs` select, with `--set` texts applied.

    Raises SpecError, SelectorError and UsageError as `load_variants` does, LockError for missing and stale locks and
    for those that no image may have, and RecipeError where a Dockerfile does not fit.
    """
    return plan_of(load_variants(tree, globs, sets), tree, globs, sets)


def plan_of(variants: Sequence[Variant], tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = ()) -> Plan:
    """The plan for variants that are loaded already; `globs` and `sets` are how the user asked for them."""
    require_fresh(tree, variants, globs, sets)
    require_sound(tree, variants)
    targets: dict[str, Target] = {}
    for variant in variants:
        for target in chain(variant, tree):
            known = targets.setdefault(target.id, target)
            if known != target:
                raise SpecError(
                    f"{variant.id}: expected the same {target.id} as the other images, found other settings below base",
                    "set os_packages of the image instead of base.os_packages",
                )
    return Plan(tuple(targets.values()), tuple(variant.id for variant in variants))
