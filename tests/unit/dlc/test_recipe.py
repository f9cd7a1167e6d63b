"""The committed Dockerfiles and what plans hand to them fit: no ARG unread or unset, no source unknown or unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlc.core.checkout import find_root, read_tree, text
from dlc.plan.plan import make_plan
from dlc.plan.targets import OFFERED, SHARED, Target

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


def misfits(dockerfile: str, target: Target) -> Iterator[str]:
    """Whatever does not fit, in words."""
    found = stages(dockerfile)
    wanted = [stage for stage in found if stage.name == target.stage] if target.stage else found[-1:]
    if not wanted:
        yield f"{target.stage}: no such stage"
    declared = set().union(*(stage.declared for stage in found)) - OF_THE_BUILD
    yield from (f"{name}: nobody sets this ARG" for name in declared - set(target.args))
    yield from (f"{name}: no ARG takes this argument" for name in set(target.args) - declared)
    for stage in found:
        yield from (f"{stage.name}: ARG {name} is not read" for name in stage.declared - stage.read)
        yield from (f"{stage.name}: {name} is read without its ARG" for name in stage.read - stage.declared)
    earlier = {stage.name for stage in found} | set(target.contexts)
    # Above the framework only the image itself takes from it.
    optional = {"training"} if target.stage in OFFERED else set()
    sources = set().union(*(stage.sources for stage in found))
    yield from (f"{name}: neither a stage nor a named context" for name in sources - earlier - optional)
    if target.dockerfile == SHARED:
        yield from (f"{name}: nobody takes from this context" for name in set(target.contexts) - sources)


TARGETS = [target for target in make_plan(TREE).targets if not target.inline]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.id)
def test_each_dockerfile_and_what_the_plan_hands_to_it_fit(target: Target) -> None:
    assert list(misfits(text(TREE, target.dockerfile), target)) == []


def test_every_dockerfile_of_the_repository_is_built_by_some_image() -> None:
    recipes = {path for path in TREE if path.endswith("/Dockerfile")}
    assert recipes == {target.dockerfile for target in TARGETS}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ARG EXTRA\n", "image: ARG EXTRA is not read"),
        ("ARG EXTRA\nRUN ${EXTRA}\n", "EXTRA: nobody sets this ARG"),
        ("RUN ${PYTHON_VERSION}\n", "image: PYTHON_VERSION is read without its ARG"),
        ("COPY --from=elsewhere / /\n", "elsewhere: neither a stage nor a named context"),
        ("RUN --mount=type=bind,from=elsewhere,target=/x true\n", "elsewhere: neither a stage nor a named context"),
    ],
)
def test_a_line_that_fits_nothing_is_found(line: str, found: str) -> None:
    [image] = [target for target in TARGETS if target.id == "pytorch-2.13-training-cpu-py311"]
    assert found in list(misfits(text(TREE, SHARED) + line, image))
