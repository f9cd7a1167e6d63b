"""The images under test: which ones the buildspec has, and that each is built and fresh before it is asked anything."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest

from dlc.buildspec.compat import fulfils
from dlc.buildspec.lockfile import locked_versions
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.models import Conditions
from dlc.buildspec.variant import Variant, normal_name
from dlc.core import labels
from dlc.core.checkout import Tree, read_workspace
from dlc.plan.plan import make_plan
from dlc.plan.targets import Target
from harness.engine import docker


@dataclass(frozen=True)
class Image:
    """A built image: what the buildspec says of it, the plan's target, and `docker image inspect`."""

    variant: Variant
    target: Target
    inspected: dict[str, Any]
    tree: Tree = field(repr=False, compare=False)

    @property
    def ref(self) -> str:
        """`dlc/pytorch:2.13-training-cpu-py311`."""
        return self.variant.ref

    @property
    def framework(self) -> str:
        """`pytorch` or `tensorflow`."""
        return self.variant.header.framework

    @property
    def python_packages(self) -> dict[str, str]:
        """Every Python package that belongs in it: those of its lock, and what docker/scripts/ adds."""
        locked = dict(locked_versions(self.tree, self.variant))
        locked |= {name: locked[normal_name(provider)] for name, provider in self.variant.provided.items()}
        return locked | ({"dlc-xla-cuda": "1"} if "jax-cuda12-pjrt" in locked else {})


@lru_cache(maxsize=1)
def repository() -> Tree:
    """The repository's files, and the project's in whose folder the tests run."""
    return read_workspace()


def selected(selectors: Sequence[str], conditions: Iterable[Mapping[str, object]]) -> list[str]:
    """Ids of the images that any of these globs selects and that fulfil all of these conditions (`Conditions`)."""
    asked = [Conditions.model_validate(each) for each in conditions]
    return [variant.id for variant in _variants(tuple(selectors)) if all(fulfils(variant, each) for each in asked)]


@lru_cache
def _variants(selectors: tuple[str, ...]) -> tuple[Variant, ...]:
    """Once for all tests: it takes tenths of a second."""
    return tuple(load_variants(repository(), selectors))


@lru_cache
def built_image(identifier: str) -> Image:
    """The image of this id; the calling test fails where it is missing, or was built from other sources."""
    return image_of(repository(), identifier)


def image_of(tree: Tree, identifier: str, *sets: str) -> Image:
    """The image that this tree and these texts of `--set` describe, else the calling test fails."""
    [variant] = load_variants(tree, [identifier], sets)
    target = make_plan(tree, [identifier], sets).target(variant.id)
    command = shlex.join(["dlc", "build", identifier, *(word for text in sets for word in ("--set", text))])
    found = docker("image", "inspect", variant.ref, check=False)
    if found.returncode:
        pytest.fail(f"{variant.ref} is not built: {command}", pytrace=False)
    [inspected] = json.loads(found.stdout)
    key = (inspected["Config"]["Labels"] or {}).get(labels.KEY)
    if key != target.key:
        pytest.fail(f"{variant.ref} is older than its sources ({labels.KEY}): {command}", pytrace=False)
    return Image(variant, target, inspected, tree)
