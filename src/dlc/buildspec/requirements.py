"""What an image asks for: its lists, extras and own packages, each with its version, if the buildspec has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlc.buildspec.models import NEWEST, Pins, Settings
from dlc.buildspec.requirement_forms import is_bare
from dlc.buildspec.variant import normal_name
from dlc.checked_yaml.problems import Mark, Problem, did_you_mean
from dlc.checked_yaml.yaml_layers import Node


@dataclass(frozen=True)
class Asked:
    """One requirement as it is written, and where."""

    requirement: str
    path: str
    mark: Mark

    @property
    def name(self) -> str:
        """Return its normal name."""
        return normal_name(self.requirement)


def list_framework(settings: Settings, node: Node) -> list[Asked]:
    """List the framework and what must match it."""
    return list(_parse_list(settings.packages.framework, ("packages", "framework"), node))


def list_training(settings: Settings, node: Node, problems: list[Problem]) -> list[Asked]:
    """List the packages of the image's lists and extras, and its own. Of two with one name the later wins.

    Without those that the image cannot have. An extra that it cannot have is a problem.
    """
    missing = {normal_name(name): why for name, why in settings.packages.missing.items() if why}
    found: dict[str, Asked] = {}
    for asked in _collect_lists(settings.packages.lists, ("packages", "lists"), settings, node, problems):
        found[asked.name] = asked
    for asked in _collect_lists(settings.extras, ("extras",), settings, node, problems):
        if asked.name in missing:
            mark = (node.at(("extras",)) or node).mark
            problems.append(Problem(mark, "extras", "packages that this image can have", repr(asked.requirement),
                                    f"{missing[asked.name]}; packages.missing.{asked.name}= asks for it"))  # fmt: skip
        found[asked.name] = asked
    for asked in _parse_list(settings.packages.training, ("packages", "training"), node):
        found[asked.name] = asked
    return [asked for asked in found.values() if asked.name not in missing]


def add_versions(asked: Sequence[Asked], pins: Pins | None, problems: list[Problem]) -> tuple[str, ...]:
    """Add the versions of pins.yml to requirements that name none; without pins nothing can be said.

    One that pins.yml leaves to `dlc lock` stays a bare name.
    """
    if pins is None:
        return ()
    known = {normal_name(name): version for name, version in pins.packages.items()}
    exact = []
    for each in asked:
        if not is_bare(each.requirement) or known.get(each.name) == NEWEST:
            exact.append(each.requirement)
        elif each.name in known:
            exact.append(f"{each.requirement}=={known[each.name]}")
        else:
            expected = "==VERSION here or a version in pins.yml, in a checkout"
            hint = did_you_mean(each.name, known)
            problems.append(Problem(each.mark, each.path, expected, repr(each.requirement), hint))
    return tuple(exact)


def check_providers(settings: Settings, node: Node) -> list[Problem]:
    """Return a problem for each name of `packages.provides` whose provider has no exact version."""
    exact = {normal_name(each) for each in settings.packages.framework if "==" in each}
    return [
        Problem((node.at(("packages", "provides", name)) or node).mark, f"packages.provides.{name}",
                "a package that packages.framework asks for as NAME==VERSION", repr(provider))
        for name, provider in settings.packages.provides.items()
        if normal_name(provider) not in exact
    ]  # fmt: skip


def _collect_lists(
    names: Sequence[str], steps: tuple[str, ...], settings: Settings, node: Node, problems: list[Problem]
) -> Iterator[Asked]:
    for index, name in enumerate(names):
        if name in settings.lists:
            yield from _parse_list(settings.lists[name], ("lists", name), node)
        else:
            mark = (node.at((*steps, index)) or node).mark
            expected = f"one of the lists ({', '.join(settings.lists) or 'there is none'})"
            hint = did_you_mean(name, settings.lists)
            problems.append(Problem(mark, f"{'.'.join(steps)}[{index}]", expected, repr(name), hint))


def _parse_list(requirements: Sequence[str], steps: tuple[str, ...], node: Node) -> Iterator[Asked]:
    for index, requirement in enumerate(requirements):
        mark = (node.at((*steps, index)) or node).mark
        yield Asked(requirement, f"{'.'.join(steps)}[{index}]", mark)
