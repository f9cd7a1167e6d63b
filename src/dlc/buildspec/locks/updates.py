"""Newer versions of what the buildspec pins, and of the Debian packages of each suite.

Proposed are the pins of pins.yml, and patch releases of the frameworks in the image files. A version that an image
file writes itself, other than its framework's, was chosen for that image and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from dlc.buildspec import cuda_efa, requirements
from dlc.buildspec.compat import fulfils
from dlc.buildspec.files import PINS, read_buildspec
from dlc.buildspec.lockfile import parse_versions
from dlc.buildspec.locks import resolve
from dlc.buildspec.models import NEWEST, Compat
from dlc.buildspec.requirement_forms import find_exact_version, is_bare
from dlc.buildspec.variant import Variant, normal_name
from dlc.buildspec.versions import is_newer, is_range
from dlc.checked_yaml.problems import Mark, Problem, did_you_mean
from dlc.checked_yaml.yaml_layers import parse_yaml
from dlc.core.checkout import SourceFile, Tree, read_text
from dlc.core.errors import LockError, SpecError, UsageError
from dlc.core.process import run_program
from dlc.debian import rootfs
from dlc.debian.suites import mmdebstrap_command

# So many builds of one release may not be the image's own.
ATTEMPTS = 20
INSTALLED = re.compile(r"^Inst (\S+) \((\S+) ", re.MULTILINE)
SIMULATE_SECONDS = 600.0


@dataclass(frozen=True)
class Pin:
    """A version that is written somewhere. `name` is normal."""

    mark: Mark
    name: str
    version: str


@dataclass(frozen=True)
class Proposal:
    """A newer version for a pin."""

    pin: Pin
    version: str


def find_proposals(
    tree: Tree, variants: Iterable[Variant], only: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> list[Proposal]:
    """Find newer versions, in the order of the files. `only`: the packages that may change; empty: all.

    `say` is told which image is resolved, which takes seconds to minutes.

    A pin that several images share gets what the most limited of them can have. Raises LockError if an image has
    no solution, UsageError for a name in `only` that nothing pins.
    """
    compat = read_buildspec(tree).compat
    variants = tuple(variants)
    _require_known(only, {pin.name for variant in variants for pin in find_pins(tree, variant)})
    allowed = {normal_name(name) for name in only}
    found: dict[Pin, list[str]] = {}
    for number, variant in enumerate(variants, 1):
        movable = [pin for pin in find_pins(tree, variant) if not allowed or pin.name in allowed]
        if movable:
            say(f"{variant.id}: newest versions (image {number} of {len(variants)})")
        newest = resolve_newest(variant, [pin.name for pin in movable], compat) if movable else {}
        for pin in movable:
            found.setdefault(pin, []).append(newest[pin.name])
    least = [Proposal(pin, min(candidates, key=Version)) for pin, candidates in found.items()]
    later = [proposal for proposal in least if is_newer(proposal.version, proposal.pin.version)]
    return sorted(later, key=lambda proposal: (proposal.pin.mark, proposal.pin.name))


def _require_known(only: Iterable[str], known: Collection[str]) -> None:
    lines = [
        f"{name}: expected a pinned package; {did_you_mean(normal_name(name), known) or 'nothing pins it'}"
        for name in only if normal_name(name) not in known
    ]  # fmt: skip
    if lines:
        raise UsageError("\n".join(lines), f"one of {', '.join(sorted(known))}")


def find_pins(tree: Tree, variant: Variant) -> list[Pin]:
    """Find the versions of an image that may change: its framework's own, and those that come from pins.yml."""
    root, _ = parse_yaml(read_text(tree, PINS), PINS)
    packages = root and root.at(("packages",))
    shared = {normal_name(name): child for name, child in packages.children().items()} if packages else {}
    own = variant.node.at(("packages", "framework", 0))
    first = variant.framework_requirements[0]
    pins = [Pin(own.mark, normal_name(first), first.partition("==")[2])] if own else []
    # These were reported when the variant was made.
    said_before: list[Problem] = []
    asked = [*requirements.list_framework(variant.settings, variant.node)[1:],
             *requirements.list_training(variant.settings, variant.node, said_before)]  # fmt: skip
    for name in (each.name for each in asked if is_bare(each.requirement)):
        if shared[name].value != NEWEST:
            pins.append(Pin(shared[name].mark, name, str(shared[name].value)))
    return pins


def resolve_newest(variant: Variant, movable: Sequence[str], compat: Compat | None) -> dict[str, str]:
    """Map packages to versions of one resolution in which these packages may be newer. Raises LockError."""
    request = resolve.make_request(variant)
    asked = [loosen(variant, requirement, movable) for requirement in (*request.framework, *request.training)]
    limits = [*request.constraints, *list_range_constraints(variant, compat, movable)]
    own = normal_name(request.framework[0])
    build = request.framework[0].partition("+")[2]
    for _ in range(ATTEMPTS):
        found = parse_versions(resolve.resolve_packages(request, asked, limits))
        if found[own].partition("+")[2] == build:
            break
        # Another build of the framework, such as torch 2.13.1 for CUDA for an image with 2.13.0+cpu.
        limits = [*limits, f"{own}!={found[own]}"]
    return found


def loosen(variant: Variant, requirement: str, movable: Sequence[str]) -> str:
    """Return a requirement for the resolver.

    The framework stays within its series, movable packages have no version.
    """
    if not find_exact_version(requirement) or normal_name(requirement) not in movable:
        return requirement
    name, _, _ = requirement.partition("==")
    return f"{name}=={variant.header.version}.*" if requirement == variant.framework_requirements[0] else name


def list_range_constraints(variant: Variant, compat: Compat | None, movable: Sequence[str]) -> list[str]:
    """Return what compat.yml asks of the packages of this image, as far as it is a range of versions."""
    asked = [rule.then.packages for rule in (compat.rules if compat else ()) if fulfils(variant, rule.when)]
    return [
        f"{name}{condition.replace(' ', '')}" for packages in asked for name, condition in packages.items()
        if normal_name(name) in movable and is_range(condition)
    ]  # fmt: skip


def apply_proposals(tree: Tree, chosen: Iterable[Proposal]) -> dict[str, str]:
    """Map the path of each file that the proposals change to its new text.

    The new version stands on the old one's line.
    """
    texts: dict[str, list[str]] = {}
    for proposal in chosen:
        mark, old = proposal.pin.mark, proposal.pin.version
        lines = texts.setdefault(mark.file, read_text(tree, mark.file).splitlines(keepends=True))
        before, after = lines[mark.line - 1][: mark.column - 1], lines[mark.line - 1][mark.column - 1 :]
        if old not in after:
            raise SpecError(f"{mark}: expected {old} on this line, found {after.strip()!r}", "change it by hand")
        lines[mark.line - 1] = before + after.replace(old, proposal.version, 1)
    return {path: "".join(lines) for path, lines in texts.items()}


def replace_texts(tree: Tree, texts: Mapping[str, str]) -> Tree:
    """Return the tree with these files."""
    return {**tree, **{path: SourceFile(content.encode()) for path, content in texts.items()}}


def list_debian_packages(variants: Iterable[Variant]) -> dict[str, list[str]]:
    """Map each suite to the Debian packages that its images name, those that only compile included."""
    names: dict[str, set[str]] = {}
    for variant in variants:
        settings = variant.settings
        named = (
            *settings.base.os_packages,
            *settings.os_packages,
            *cuda_efa.build_packages(settings),
            *cuda_efa.efa_packages(settings.efa),
        )
        names.setdefault(variant.system, set()).update(named)
    return {suite: sorted(found) for suite, found in names.items()}


def resolve_debian(suite: str, names: Sequence[str], work: Path) -> dict[str, str]:
    """Map every package that a minimal Debian with these packages holds to its version. Nothing is installed.

    `work` is a folder for the cache of apt if mmdebstrap has to be installed first. Raises LockError with apt's words.
    """
    rootfs.require_program(work)
    rootfs.require_foreign_program(suite, work)
    program, *rest = mmdebstrap_command(suite, names)
    argv = [program, *rootfs.name_keys(), "--simulate", "--verbose", *rest, "/dev/null"]
    done = run_program(argv, check=False, timeout=SIMULATE_SECONDS)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [done.stderr[-500:]]
        raise LockError(f"{suite}: {'; '.join(errors)}", "name packages of this suite, and check that apt has a mirror")
    return dict(INSTALLED.findall(done.stdout + done.stderr))
