"""The lock of a project: what it adds to a released lock, or all packages if a released version has to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlc.buildspec.lockfile import (
    ADDED,
    CHANGED,
    FILES,
    TRAINING,
    find_chain,
    join_entries,
    parse_entries,
    parse_requirers,
    parse_versions,
    read_entries,
    with_headers,
)
from dlc.buildspec.locks import resolve
from dlc.buildspec.locks.resolve import LockRequest
from dlc.buildspec.variant import Variant, normal_name
from dlc.core.checkout import Tree
from dlc.core.errors import LockError


@dataclass(frozen=True)
class OwnLock:
    """The files of a project's lock. `added`: the packages on top of the released ones; none if all is locked anew.

    `changed` has a line for each released version that could not stay.
    """

    texts: Mapping[str, str]
    added: Mapping[str, str]
    changed: tuple[str, ...] = ()


def make_own_lock(request: LockRequest, variant: Variant, base: Variant, tree: Tree) -> OwnLock:
    """Resolve with every released version held; without such a solution as `resolve.make_lock` does.

    Raises LockError as it does, PackageIndexError if an index does not answer.
    """
    released = read_entries(tree, base)
    is_like = all(name in released for name in FILES) and _asks_for_all(variant, base)
    added = _resolve_added(request, released) if is_like else None
    if added is None:
        return _lock_anew(variant, base, tree, request)
    texts = {**released, ADDED: "".join(f"{entry}\n" for entry in added.values())}
    return OwnLock(with_headers(request.digest, texts, request.platform), dict(added.keys()))


def _asks_for_all(variant: Variant, base: Variant) -> bool:
    """Tell whether an image asks for all that the released one is made from: --set may change that."""

    def describe(each: Variant) -> object:
        return (each.framework_requirements, each.source_built, each.compiled, each.provided, each.system,
                each.settings.python)  # fmt: skip

    asked = {normal_name(each) for each in variant.training_requirements}
    return describe(variant) == describe(base) and asked >= {normal_name(each) for each in base.training_requirements}


def _resolve_added(request: LockRequest, released: Mapping[str, str]) -> dict[tuple[str, str], str] | None:
    """Return the entries beside the released ones, or None if these cannot stay as they are.

    What is compiled here needs the stages in which the released packages of its kind are compiled.
    """
    held = {pin for name in FILES for pin in parse_entries(released[name])}
    pins = [f"{name}=={version}" for name, version in sorted(held)]
    try:
        whole = resolve.resolve_packages(request, [*request.framework, *request.training], pins)
    except LockError:
        return None
    found = parse_entries(whole)
    added = {pin: entry for pin, entry in found.items() if pin not in held}
    names = {name for name, _ in added}
    if held - found.keys() or names & ({name for name, _ in held} | _list_built(request)):
        return None
    resolve.require_sound(request, whole)
    return added


def _list_built(request: LockRequest) -> set[str]:
    return {normal_name(name) for name in (*request.source, *request.compiled)}


def _lock_anew(variant: Variant, base: Variant, tree: Tree, request: LockRequest) -> OwnLock:
    """Lock all anew, with the released versions if they fit; say in the lock which did not, and why."""
    texts = resolve.make_texts(request)
    before = parse_versions(join_entries(tree, base))
    after = parse_versions("\n".join(texts.values()))
    differing = {name: version for name, version in before.items() if after.get(name) != version}
    own = {normal_name(each): each for each in variant.training_requirements if each not in base.training_requirements}
    chains = _find_chains(request, after, list(own)) if differing else {}
    changed = tuple(
        f"{name} {version} -> {after.get(name, 'none')}: {_explain(name, own, chains, after)}"
        for name, version in differing.items()
    )
    changed += tuple(f"{name}: it is compiled here" for name in after if name in _list_built(request) - before.keys())
    texts[TRAINING] = "".join(f"{CHANGED}{line}\n" for line in changed) + texts[TRAINING]
    return OwnLock(with_headers(request.digest, texts, request.platform), {}, changed)


def _find_chains(request: LockRequest, after: Mapping[str, str], own: Sequence[str]) -> dict[str, list[str]]:
    """Map packages to the chain of requirements that leads to each from one that the project names."""
    pins = [f"{name}=={version}" for name, version in after.items()]
    required_by = parse_requirers(resolve.annotate(request, pins))
    return {name: chain for name in after if (chain := find_chain(name, required_by, own))[0] in own}


def _explain(name: str, own: Mapping[str, str], chains: Mapping[str, Sequence[str]], after: Mapping[str, str]) -> str:
    """Tell who wants another version of a released package."""
    if name in own:
        return f"dlc.yml asks for {own[name]}"
    if len(chain := chains.get(name, ())) > 1:
        return "dlc.yml asks for " + ", which needs ".join(f"{step}=={after[step]}" for step in chain)
    return "it does not go with what dlc.yml asks for"
