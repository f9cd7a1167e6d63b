"""The buildspec expanded into variants: layers merged, checked, selected, and changed by --set."""

from __future__ import annotations

from collections.abc import Sequence

from dlc.buildspec import Buildspec, ImageFile, read_buildspec
from dlc.cascade import merge, merge_all, override
from dlc.compat import broken_rules
from dlc.problems import Problem, did_you_mean, raise_report
from dlc.selector import select
from dlc.spec import Pins, Settings
from dlc.tree import Tree
from dlc.validate import validate
from dlc.variant import Variant, normal_name
from dlc.versions import starts_with
from dlc.yaml_marks import Node


def load_variants(tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = ()) -> tuple[Variant, ...]:
    """The variants that `globs` select (all without one), each with the `--set path=value` texts applied to it.

    Raises SpecError with every problem of every file, SelectorError for a glob without a match, and UsageError
    where only --set is to blame.
    """
    buildspec = read_buildspec(tree)
    pairs = [(image, merge_all([buildspec.defaults, image.settings, layer]))
             for image in buildspec.images for layer in image.variants]  # fmt: skip
    variants = _checked(pairs, buildspec, list(buildspec.problems))
    chosen = select(globs, [variant.id for variant in variants])
    if not sets:
        return tuple(variant for variant in variants if variant.id in chosen)
    problems: list[Problem] = []
    layers = [override(text, buildspec.defaults) for text in sets]
    problems.extend(problem for _, found in layers for problem in found)
    top = merge_all([layer for layer, _ in layers])
    changed = [(image, merge(node, top)) for (image, node), variant in zip(pairs, variants, strict=True)
               if variant.id in chosen]  # fmt: skip
    return _checked(changed, buildspec, problems)


def _checked(
    pairs: Sequence[tuple[ImageFile, Node]], buildspec: Buildspec, problems: list[Problem]
) -> tuple[Variant, ...]:
    """One variant per pair; raises the report of `problems` and of those found here."""
    variants: list[Variant] = []
    first: dict[str, Node] = {}
    for image, node in pairs:
        variant, found = resolve(image, node, buildspec)
        problems.extend(found)
        if variant is None:
            continue
        if variant.id in first:
            mark = (node.at(("device",)) or node).mark
            problems.append(Problem(mark, "variants", "each image once", f"{variant.id} twice"))
        first.setdefault(variant.id, node)
        variants.append(variant)
    raise_report(problems)
    return tuple(variants)


def resolve(image: ImageFile, node: Node, buildspec: Buildspec) -> tuple[Variant | None, list[Problem]]:
    """The variant of one merged layer, or None and why not."""
    settings, problems = validate(Settings, node)
    if settings is None:
        return None, problems
    problems = _unknown_suite(settings, node) + _unlike_header(image, settings, node)
    framework = _pinned(settings.packages.framework, "framework", node, buildspec.pins, problems)
    training = _pinned(settings.packages.training, "training", node, buildspec.pins, problems)
    if problems:
        return None, problems
    variant = Variant(image.header, settings, node, framework, training)
    if buildspec.compat:
        problems = broken_rules(variant, buildspec.compat, buildspec.compat_node, image.node)
    return variant, problems


def _unknown_suite(settings: Settings, node: Node) -> list[Problem]:
    if settings.python in settings.suites:
        return []
    mark = (node.at(("python",)) or node).mark
    return [Problem(mark, "python", f"one that a suite packages: {', '.join(settings.suites)}", repr(settings.python))]


def _unlike_header(image: ImageFile, settings: Settings, node: Node) -> list[Problem]:
    """The first framework requirement is the framework itself and must be of the version that names the image."""
    if not settings.packages.framework:
        mark = image.node.mark
        return [Problem(mark, "packages.framework", "the framework's requirement, such as torch==2.13.0", "none")]
    name, _, version = settings.packages.framework[0].partition("==")
    if starts_with(version, image.header.version):
        return []
    mark = (node.at(("packages", "framework", 0)) or node).mark
    found = repr(settings.packages.framework[0])
    return [Problem(mark, "packages.framework[0]", f"{name}=={image.header.version}.*, the file's version", found)]


def _pinned(
    requirements: Sequence[str], group: str, node: Node, pins: Pins | None, problems: list[Problem]
) -> tuple[str, ...]:
    """Requirements with the versions of pins.yml where they name none; nothing can be said without pins."""
    if pins is None:
        return ()
    known = {normal_name(name): version for name, version in pins.packages.items()}
    exact = []
    for index, requirement in enumerate(requirements):
        name = normal_name(requirement)
        if "==" in requirement:
            exact.append(requirement)
        elif name in known:
            exact.append(f"{requirement}=={known[name]}")
        else:
            mark = (node.at(("packages", group, index)) or node).mark
            path = f"packages.{group}[{index}]"
            expected = "==VERSION here or a version in buildspec/pins.yml"
            problems.append(Problem(mark, path, expected, repr(requirement), did_you_mean(name, known)))
    return tuple(exact)
