"""The committed Dockerfiles and what plans hand to them fit: no ARG unread or unset, no source unknown or unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlc.core.checkout import find_root, read_text, read_tree
from dlc.plan import own_image
from dlc.plan.contexts import Host
from dlc.plan.plan import make_plan
from dlc.plan.targets import SCRIPTS, SHARED, Target

TREE = read_tree(find_root(Path(__file__).parent))
# BuildKit hands it over without being asked; the bake file has it, because it is no part of what it names.
OF_THE_BUILD = {"DLC_CONTENT_KEY"}
STAGE = re.compile(r"^FROM (\S+) AS (\S+)$", re.MULTILINE)
SOURCE = re.compile(r"--(?:from=|mount=\S*\bfrom=)([a-z-]+)")


@dataclass(frozen=True)
class Stage:
    """One stage of a Dockerfile: its name, what it begins from, and its lines without comments."""

    name: str
    base: str
    body: str

    @property
    def declared(self) -> set[str]:
        """Names of its ARGs."""
        return set(re.findall(r"^ARG (\w+)$", self.body, re.MULTILINE))

    @property
    def read(self) -> set[str]:
        """Variables that its lines read."""
        return set(re.findall(r"\$\{(\w+)\}", self.body))

    @property
    def sources(self) -> set[str]:
        """Stages and named contexts that it takes from."""
        return {self.base, *SOURCE.findall(self.body)} - {"scratch"}


def stages(dockerfile: str) -> list[Stage]:
    """The stages in order. Ours are written in one way: no FROM without AS, no ARG before it, no here-document."""
    lines = "".join(line for line in dockerfile.splitlines(keepends=True) if not line.startswith("#"))
    before, *parts = re.split(r"^(?=FROM )", lines, flags=re.MULTILINE)
    assert not before.strip()
    named = [(STAGE.match(part), part) for part in parts]
    assert all(match for match, _ in named), "expected FROM ... AS ... in each"
    return [Stage(match[2], match[1], part[match.end() :]) for match, part in named if match]


def reached(found: list[Stage], last: str) -> list[Stage]:
    """The stages that BuildKit runs for the one that is wanted (empty: the last), as its own stages name them."""
    wanted = {last or found[-1].name}
    for stage in reversed(found):
        if stage.name in wanted:
            wanted |= stage.sources
    return [stage for stage in found if stage.name in wanted]


def misfits(dockerfile: str, target: Target) -> Iterator[str]:
    """Whatever does not fit, in words."""
    used = reached(stages(dockerfile), target.stage)
    declared = set().union(*(stage.declared for stage in used)) - OF_THE_BUILD
    yield from (f"{name}: nobody sets this ARG" for name in declared - set(target.args))
    yield from (f"{name}: no ARG takes this argument" for name in set(target.args) - declared)
    for stage in used:
        yield from (f"{stage.name}: ARG {name} is not read" for name in stage.declared - stage.read)
        yield from (f"{stage.name}: {name} is read without its ARG" for name in stage.read - stage.declared)
    outside = set().union(*(stage.sources for stage in used)) - {stage.name for stage in used}
    yield from (f"{name}: neither a stage nor a named context" for name in outside - set(target.contexts))
    if target.dockerfile == SHARED:  # a framework takes what it needs of what it is offered
        yield from (f"{name}: nobody takes from this context" for name in set(target.contexts) - outside)


TARGETS = [target for target in make_plan(TREE).targets if not target.inline]
[IMAGE] = [target for target in TARGETS if target.id == "pytorch-2.9-training-cu128-py311"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.id)
def test_each_dockerfile_and_what_the_plan_hands_to_it_fit(target: Target) -> None:
    assert list(misfits(read_text(TREE, target.dockerfile), target)) == []


def test_every_dockerfile_of_the_repository_is_built_by_some_image() -> None:
    recipes = {path for path in TREE if path.endswith("/Dockerfile")} - {own_image.DOCKERFILE}
    assert recipes == {target.dockerfile for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.id)
def test_a_step_has_the_wheels_of_the_lock_files_that_it_mounts(target: Target) -> None:
    steps = [stage.body for stage in reached(stages(read_text(TREE, target.dockerfile)), target.stage)
             if stage.name not in target.contexts and "from=wheels," in stage.body]  # fmt: skip
    mounted = {name for body in steps for name in re.findall(r"type=bind,source=(\w+\.txt),", body)}
    folder = target.contexts.get("wheels")
    assert {Path(path).name for path in (folder.locks if isinstance(folder, Host) else ())} == mounted


def test_every_stage_is_part_of_some_image() -> None:
    wanted = [target.stage for target in TARGETS if target.dockerfile == SHARED]
    found = stages(read_text(TREE, SHARED))
    assert {stage.name for name in wanted for stage in reached(found, name)} == {stage.name for stage in found}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ARG EXTRA\n", "cuda-image: ARG EXTRA is not read"),
        ("ARG EXTRA\nRUN ${EXTRA}\n", "EXTRA: nobody sets this ARG"),
        ("RUN ${PYTHON_VERSION}\n", "cuda-image: PYTHON_VERSION is read without its ARG"),
        ("COPY --from=elsewhere / /\n", "elsewhere: neither a stage nor a named context"),
        ("RUN --mount=type=bind,from=elsewhere,target=/x true\n", "elsewhere: neither a stage nor a named context"),
    ],
)
def test_a_line_that_fits_nothing_is_found(line: str, found: str) -> None:
    assert found in list(misfits(read_text(TREE, SHARED) + line, IMAGE))


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (replace(IMAGE, args={**IMAGE.args, "EXTRA": ""}), "EXTRA: no ARG takes this argument"),
        (replace(IMAGE, contexts={**IMAGE.contexts, "extra": SCRIPTS}), "extra: nobody takes from this context"),
        (replace(IMAGE, contexts={}), "entrypoint: neither a stage nor a named context"),
        (replace(IMAGE, args={}), "EFA_VERSION: nobody sets this ARG"),
    ],
)
def test_what_a_plan_hands_over_too_much_or_not_at_all_is_found(target: Target, found: str) -> None:
    assert found in list(misfits(read_text(TREE, SHARED), target))
