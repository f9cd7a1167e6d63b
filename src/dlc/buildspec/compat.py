"""Checks an image against the rules of compat.yml; a broken rule is a problem at the place of the wrong value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlc.buildspec.lockfile import explain_staleness, locked_versions
from dlc.buildspec.models import Compat, Conditions
from dlc.buildspec.requirement_forms import find_exact_version
from dlc.buildspec.variant import Variant, normal_name
from dlc.buildspec.versions import debian_satisfies, is_range, satisfies
from dlc.checked_yaml.problems import Problem
from dlc.checked_yaml.yaml_layers import Node
from dlc.core.checkout import Tree
from dlc.debian import suites

HEADER_FACTS = ("framework", "version", "job", "eop", "unsupported")

# Prefix of facts about requested packages.
PACKAGES = "packages."


def find_broken_rules(
    variant: Variant, compat: Compat, compat_node: Node | None, file_node: Node, tree: Tree
) -> list[Problem]:
    """Find every rule whose `when` the image fulfils and whose `then` it does not. A fact that it lacks breaks no rule.

    `tree` holds the locks, whose versions are facts while they are fresh, and the recorded Debian versions.
    """
    facts = {**_collect_facts(variant), **_collect_recorded_facts(variant, tree)}
    problems = []
    for index, rule in enumerate(compat.rules):
        if not _are_fulfilled(facts, rule.when):
            continue
        rule_node = compat_node and compat_node.at(("rules", index))
        why = f"because {rule.why}" + (f" ({rule_node.mark})" if rule_node else "")
        for name, condition in _list_conditions(rule.then):
            if name in facts and not _is_left_open(name, facts) and not _holds(name, facts[name], condition):
                mark = _find_place(variant, file_node, name).mark
                problems.append(Problem(mark, name, f"{condition} {why}", repr(facts[name]), f"in {variant.id}"))
        for name in _list_absent(facts, rule.then):
            mark = (variant.node.at(("packages",)) or variant.node).mark
            problems.append(Problem(mark, "packages", f"{name} {why}", "none", f"in {variant.id}"))
    return problems


def list_constraints(variant: Variant, compat: Compat) -> tuple[str, ...]:
    """List what the rules ask of packages whose version `dlc lock` chooses, as in `transformers<5`."""
    facts = _collect_facts(variant)
    asked = [_list_conditions(rule.then) for rule in compat.rules if _are_fulfilled(facts, rule.when)]
    found = {
        name.removeprefix(PACKAGES) + condition.replace(" ", "")
        for conditions in asked for name, condition in conditions
        if _is_left_open(name, facts) and is_range(condition)
    }  # fmt: skip
    return tuple(sorted(found))


def fulfils(variant: Variant, conditions: Conditions) -> bool:
    """Tell whether an image fulfils all conditions. An image that lacks a fact does not."""
    return _are_fulfilled(_collect_facts(variant), conditions)


def _are_fulfilled(facts: Mapping[str, str], conditions: Conditions) -> bool:
    holds = all(
        name in facts and _holds(name, facts[name], condition) for name, condition in _list_conditions(conditions)
    )
    return holds and not _list_absent(facts, conditions)


def _list_absent(facts: Mapping[str, str], conditions: Conditions) -> list[str]:
    """List the packages that the conditions want and the image does not ask for."""
    return [name for name in conditions.has if PACKAGES + normal_name(name) not in facts]


def _is_left_open(name: str, facts: Mapping[str, str]) -> bool:
    """Tell whether a fact is a package that the image asks for without a version."""
    return name.startswith(PACKAGES) and facts.get(name) == ""


def _holds(name: str, found: str, condition: str) -> bool:
    if name == "eop":
        return found <= condition.removeprefix("<=")
    return (debian_satisfies if name.startswith("debian.") else satisfies)(found, condition)


def _collect_facts(variant: Variant) -> Mapping[str, str]:
    header, settings = variant.header, variant.settings
    facts = {
        "framework": header.framework,
        "version": header.version,
        "job": header.job,
        "unsupported": header.unsupported,
        "device": settings.device,
        "python": settings.python,
        "suite": variant.suite,
        "efa.source": settings.efa.source,
        "efa.version": settings.efa.version,
    }
    for requirement in (*variant.framework_requirements, *variant.training_requirements):
        facts[PACKAGES + normal_name(requirement)] = find_exact_version(requirement)
    return facts | ({"eop": header.eop} if header.eop else {})


def _collect_recorded_facts(variant: Variant, tree: Tree) -> Mapping[str, str]:
    """Collect versions from a fresh lock and the Debian list. A base that the user names has versions of its own."""
    facts: dict[str, str] = {}
    if not explain_staleness(tree, variant):
        facts |= {f"locked.{name}": version for name, version in locked_versions(tree, variant).items()}
    if not variant.settings.base.image and suites.versions_path(variant.system) in tree:
        facts |= {f"debian.{name}": version for name, version in suites.read_recorded(tree, variant.system).items()}
    return facts


def _list_conditions(conditions: Conditions) -> Iterator[tuple[str, str]]:
    for name, condition in conditions.model_dump(exclude={"has"}).items():
        if isinstance(condition, dict):
            yield from ((f"{name}.{_fact_name(name, key)}", value) for key, value in condition.items())
        elif condition is not None:
            yield name, condition


def _fact_name(kind: str, name: str) -> str:
    """Return the name of a fact. Python packages have many spellings, Debian packages one."""
    return normal_name(name) if kind in ("packages", "locked") else name


def _find_place(variant: Variant, file_node: Node, name: str) -> Node:
    """Find the node that set a fact."""
    if name in HEADER_FACTS:
        return file_node.at((name,)) or file_node
    if name == "suite":
        return variant.node.at(("suites", variant.settings.python)) or variant.node
    if name.startswith("efa."):
        return variant.node.at(tuple(name.split("."))) or variant.node
    if not name.startswith(PACKAGES):
        return variant.node.at((name,)) or variant.node
    lists = [("packages", group) for group in ("training", "framework")]
    for steps in (*lists, *(("lists", each) for each in variant.settings.lists)):
        listed = variant.node.at(steps)
        for item in listed.value if listed and isinstance(listed.value, tuple) else ():
            if isinstance(item.value, str) and normal_name(item.value) == name.removeprefix(PACKAGES):
                return item
    return variant.node
