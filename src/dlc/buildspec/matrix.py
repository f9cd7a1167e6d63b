"""The buildspec expanded into variants: layers merged, checked, selected, and changed by --set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlc.buildspec import cuda_efa, project, requirements
from dlc.buildspec.compat import find_broken_rules, list_constraints
from dlc.buildspec.files import Buildspec, ImageFile, read_buildspec
from dlc.buildspec.models import NEWEST, Settings
from dlc.buildspec.platforms import check_platform, explain_platforms, split_by_platform
from dlc.buildspec.project import Project
from dlc.buildspec.selection import select_images
from dlc.buildspec.variant import Variant
from dlc.buildspec.versions import starts_with
from dlc.checked_yaml.problems import Mark, Problem, raise_report, require_value
from dlc.checked_yaml.validation import validate_node
from dlc.checked_yaml.yaml_layers import Node, make_override, make_set_mark, merge_all_layers
from dlc.core.checkout import Tree
from dlc.core.environment import PLATFORM
from dlc.core.platforms import ANY_PLATFORM

OWN_LABELS = "org.dlc."


@dataclass(frozen=True)
class Candidate:
    """The merged settings of one variant before they are checked; `mark` is where the variant is written.

    `plain` is the variant without --set, if there is one; `base` the released image of a project's.
    """

    image: ImageFile
    node: Node
    mark: Mark
    plain: Variant | None = None
    base: Variant | None = None


def load_variants(
    tree: Tree, globs: Sequence[str] = (), sets: Sequence[str] = (), platform: str = PLATFORM
) -> tuple[Variant, ...]:
    """Load the variants that `globs` select (all without a glob), each with the `--set path=value` texts applied to it.

    A glob selects images of `platform` (ANY_PLATFORM: of all), a whole identifier any image.

    Raises SpecError with every problem of every file, SelectorError for a glob without a match, and UsageError
    if --set is the only cause.
    """
    # First of all: it may ask for a newer dlc.
    own = project.read_project(tree)
    buildspec = read_buildspec(tree)
    candidates = _expand_candidates(buildspec)
    variants = _check_candidates(candidates, buildspec, tree, list(buildspec.problems))
    if own:
        buildspec = _leave_open(buildspec, own)
        added = _make_own_candidate(own, candidates, variants)
        candidates = [*candidates, added]
        variants = (*variants, _check_own(added, own, buildspec, tree, variants))
    apart = [each.id for each in variants if platform not in (ANY_PLATFORM, each.settings.platform)]
    chosen = select_images(globs, [variant.id for variant in variants], apart)
    pairs = [pair for pair in zip(candidates, variants, strict=True) if pair[1].id in chosen]
    if not sets or buildspec.defaults is None:
        return tuple(variant for _, variant in pairs)
    problems: list[Problem] = []
    changed = []
    for candidate, plain in pairs:
        overrides = [make_override(text, candidate.node) for text in sets]
        problems += [problem for _, found in overrides for problem in found]
        node = merge_all_layers([candidate.node, *(layer for layer, _ in overrides)])
        changed.append(Candidate(candidate.image, node, make_set_mark(sets[-1]), plain, candidate.base))
    return _check_candidates(changed, buildspec, tree, problems)


def list_frameworks(tree: Tree) -> tuple[str, ...]:
    """Return the names of the frameworks that there are images of, sorted. Raises as `load_variants` does."""
    return tuple(sorted({variant.header.framework for variant in load_variants(tree)}))


def _expand_candidates(buildspec: Buildspec) -> list[Candidate]:
    """Return the merged layers of each variant; none without defaults, which are a problem already."""
    if buildspec.defaults is None:
        return []
    return [
        Candidate(image, node, layer.mark)
        for image in buildspec.images
        for layer in image.variants
        for node in split_by_platform(merge_all_layers([buildspec.defaults, image.settings, layer]))
    ]


def _make_own_candidate(own: Project, candidates: Sequence[Candidate], variants: Sequence[Variant]) -> Candidate:
    """Return the project's image: the layers of the image that it starts from, and dlc.yml on top."""
    base = project.find_base(own, variants)
    image = next(each.image for each, found in zip(candidates, variants, strict=True) if found is base)
    node = merge_all_layers([base.node, project.make_layer(own, base)])
    return Candidate(image, node, own.node.mark, base=base)


def _leave_open(buildspec: Buildspec, own: Project) -> Buildspec:
    """Let `dlc lock` choose versions of packages that the project names without one, if pins.yml has none."""
    if buildspec.pins is None:
        return buildspec
    packages = dict.fromkeys(project.list_bare_names(own), NEWEST) | buildspec.pins.packages
    return replace(buildspec, pins=buildspec.pins.model_copy(update={"packages": packages}))


def _check_own(
    candidate: Candidate, own: Project, buildspec: Buildspec, tree: Tree, others: Sequence[Variant]
) -> Variant:
    """Return the project's image. Raises the report of what is wrong with it, in dlc.yml's words."""
    variant, found = resolve_variant(candidate, buildspec, tree)
    problems = [project.name_as_written(problem) for problem in found]
    problems += project.find_collision(own, variant, others) if variant else []
    return require_value(variant, problems)


def _check_candidates(
    candidates: Sequence[Candidate], buildspec: Buildspec, tree: Tree, problems: list[Problem]
) -> tuple[Variant, ...]:
    """Return one variant per candidate. Raises the report of `problems` and of those found here."""
    variants: dict[str, Variant] = {}
    for candidate in candidates:
        variant, found = resolve_variant(candidate, buildspec, tree)
        problems.extend(found)
        if variant and variant.id in variants:
            problems.append(Problem(candidate.mark, "variants", "each image once", f"{variant.id} twice"))
        if variant:
            variants.setdefault(variant.id, variant)
    raise_report(problems)
    return tuple(variants.values())


def resolve_variant(candidate: Candidate, buildspec: Buildspec, tree: Tree) -> tuple[Variant | None, list[Problem]]:
    """Return the variant of one merged layer, or None and why not."""
    image, node = candidate.image, candidate.node
    settings, problems = validate_node(Settings, node)
    if settings is None:
        return None, problems
    problems = [
        *_check_suite(settings, node), *_check_header(image, settings, node), *_check_labels(settings, node),
        *cuda_efa.check_efa(settings.efa, node), *cuda_efa.check_cuda(settings, node),
        *requirements.check_providers(settings, node),
    ]  # fmt: skip
    framework = requirements.add_versions(requirements.list_framework(settings, node), buildspec.pins, problems)
    training = requirements.add_versions(requirements.list_training(settings, node, problems), buildspec.pins, problems)
    # Each of these has a problem of its own.
    if problems or image.header is None or buildspec.pins is None:
        return None, problems
    variant = Variant(image.header, settings, node, framework, training, candidate.plain, base=candidate.base)
    if buildspec.compat:
        constraints = list_constraints(variant, buildspec.compat)
        variant = replace(variant, constraints=constraints, platforms=explain_platforms(variant, buildspec.compat))
        problems = find_broken_rules(variant, buildspec.compat, buildspec.compat_node, image.node, tree)
        problems += check_platform(variant, buildspec.compat)
    return variant, problems


def _check_suite(settings: Settings, node: Node) -> list[Problem]:
    if settings.python in settings.suites:
        return []
    mark = (node.at(("python",)) or node).mark
    return [Problem(mark, "python", f"one that a suite packages: {', '.join(settings.suites)}", repr(settings.python))]


def _check_labels(settings: Settings, node: Node) -> list[Problem]:
    """Return a problem for each setting of a label that dlc itself sets."""
    return [
        Problem((node.at(("labels", name)) or node).mark, f"labels.{name}", f"a label outside {OWN_LABELS}*")
        for name in settings.labels
        if name.startswith(OWN_LABELS)
    ]


def _check_header(image: ImageFile, settings: Settings, node: Node) -> list[Problem]:
    """Require that the first framework requirement, the framework itself, has the version that names the image."""
    if not settings.packages.framework:
        mark = image.node.mark
        return [Problem(mark, "packages.framework", "the framework's requirement, such as torch==2.13.0", "none")]
    name, _, version = settings.packages.framework[0].partition("==")
    if image.header is None or starts_with(version, image.header.version):
        return []
    mark = (node.at(("packages", "framework", 0)) or node).mark
    found = repr(settings.packages.framework[0])
    return [Problem(mark, "packages.framework[0]", f"{name}=={image.header.version}.*, the file's version", found)]
