"""Checks an image against the rules of compat.yml; a broken rule is a problem at the place of the wrong value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlc.buildspec.locked import locked_versions, staleness
from dlc.buildspec.models import Compat, Conditions
from dlc.buildspec.problems import Problem
from dlc.buildspec.variant import Variant, normal_name
from dlc.buildspec.versions import debian_satisfies, satisfies
from dlc.buildspec.yaml_marks import Node
from dlc.core.checkout import Tree
from dlc.debian import recorded as debian

HEADER_FACTS = ("framework", "version", "job")


def broken_rules(
    variant: Variant, compat: Compat, compat_node: Node | None, file_node: Node, tree: Tree
) -> list[Problem]:
    """Every rule whose `when` the image fulfils and whose `then` it does not. A fact that it lacks breaks no rule.

    `tree` holds the locks, whose versions are facts while they are fresh, and the recorded Debian versions.
    """
    facts = {**_facts(variant), **_recorded_facts(variant, tree)}
    problems = []
    for index, rule in enumerate(compat.rules):
        if not _fulfilled(facts, rule.when):
            continue
        for name, condition in _conditions(rule.then):
            if name in facts and not _holds(name, facts[name], condition):
                rule_node = compat_node and compat_node.at(("rules", index))
                where = f" ({rule_node.mark})" if rule_node else ""
                place = _place(variant, file_node, name)
                problems.append(
                    Problem(
                        place.mark,
                        name,
                        f"{condition} because {rule.why}{where}",
                        repr(facts[name]),
                        f"in {variant.id}",
                    )
                )
    return problems


def fulfils(variant: Variant, conditions: Conditions) -> bool:
    """Whether an image fulfils all conditions; one that lacks a fact does not."""
    return _fulfilled(_facts(variant), conditions)


def _fulfilled(facts: Mapping[str, str], conditions: Conditions) -> bool:
    return all(name in facts and _holds(name, facts[name], condition) for name, condition in _conditions(conditions))


def _holds(name: str, found: str, condition: str) -> bool:
    return (debian_satisfies if name.startswith("debian.") else satisfies)(found, condition)


def _facts(variant: Variant) -> Mapping[str, str]:
    header, settings = variant.header, variant.settings
    facts = {
        "framework": header.framework,
        "version": header.version,
        "job": header.job,
        "device": settings.device,
        "python": settings.python,
        "suite": variant.suite,
        "efa.source": settings.efa.source,
        "efa.version": settings.efa.version,
    }
    for requirement in (*variant.framework_requirements, *variant.training_requirements):
        facts[f"packages.{normal_name(requirement)}"] = requirement.partition("==")[2]
    return facts


def _recorded_facts(variant: Variant, tree: Tree) -> Mapping[str, str]:
    """Versions that a fresh lock and the Debian list record. A base that the user names has versions of its own."""
    facts: dict[str, str] = {}
    if not staleness(tree, variant):
        facts |= {f"locked.{name}": version for name, version in locked_versions(tree, variant).items()}
    if not variant.settings.base.image and debian.path(variant.suite) in tree:
        facts |= {f"debian.{name}": version for name, version in debian.recorded(tree, variant.suite).items()}
    return facts


def _conditions(conditions: Conditions) -> Iterator[tuple[str, str]]:
    for name, condition in conditions.model_dump().items():
        if isinstance(condition, dict):
            yield from ((f"{name}.{_fact_name(name, key)}", value) for key, value in condition.items())
        elif condition is not None:
            yield name, condition


def _fact_name(kind: str, name: str) -> str:
    """Python packages have many spellings, Debian packages one."""
    return normal_name(name) if kind in ("packages", "locked") else name


def _place(variant: Variant, file_node: Node, name: str) -> Node:
    """The node that set a fact."""
    if name in HEADER_FACTS:
        return file_node.at((name,)) or file_node
    if name == "suite":
        return variant.node.at(("suites", variant.settings.python)) or variant.node
    if name.startswith("efa."):
        return variant.node.at(tuple(name.split("."))) or variant.node
    if not name.startswith("packages."):
        return variant.node.at((name,)) or variant.node
    for group in ("framework", "training"):
        listed = variant.node.at(("packages", group))
        for item in listed.value if listed and isinstance(listed.value, tuple) else ():
            if isinstance(item.value, str) and normal_name(item.value) == name.removeprefix("packages."):
                return item
    return variant.node
