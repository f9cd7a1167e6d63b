"""The files of buildspec/ read into typed values and marked layers, with every problem of every file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from pydantic import BaseModel

from dlc.errors import SpecError
from dlc.problems import Mark, Problem
from dlc.spec import Compat, Header, Pins
from dlc.tree import Tree, text
from dlc.validate import validate
from dlc.yaml_marks import Node, parse

DEFAULTS, PINS, COMPAT = "buildspec/defaults.yml", "buildspec/pins.yml", "buildspec/compat.yml"
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class ImageFile:
    """One image file: what names its images, the settings common to all of them, and each variant's own."""

    path: str
    header: Header
    node: Node
    settings: Node
    variants: tuple[Node, ...]


@dataclass(frozen=True)
class Buildspec:
    """All files. `pins` and `compat` are None where their file is wrong; `problems` says what is."""

    defaults: Node
    pins: Pins | None
    compat: Compat | None
    compat_node: Node
    images: tuple[ImageFile, ...]
    problems: tuple[Problem, ...]

    def versions(self) -> Mapping[str, list[str]]:
        """The known versions of each framework."""
        known: dict[str, list[str]] = {}
        for image in self.images:
            known.setdefault(image.header.framework, []).append(image.header.version)
        return known


def read_buildspec(tree: Tree) -> Buildspec:
    """Read every YAML file of `tree` below buildspec/."""
    problems: list[Problem] = []
    defaults = _node(tree, DEFAULTS, problems)
    pins = _model(Pins, _node(tree, PINS, problems), problems)
    compat_node = _node(tree, COMPAT, problems)
    compat = _model(Compat, compat_node, problems)
    images: list[ImageFile] = []
    for path in sorted(tree):
        if path.startswith("buildspec/") and path.endswith(".yml") and path.count("/") == 2:
            image = _image(path, _node(tree, path, problems), tree, problems)
            images.extend([image] if image else [])
    if not images and not problems:
        problems.append(Problem(Mark("buildspec", 1, 1), "", "an image file such as pytorch/2.13-training.yml", "none"))
    return Buildspec(defaults, pins, compat, compat_node, tuple(images), tuple(problems))


def _node(tree: Tree, path: str, problems: list[Problem]) -> Node:
    try:
        node, found = parse(text(tree, path), path)
    except SpecError as error:
        problems.append(Problem(Mark(path, 1, 1), "", "a readable YAML file", error.message.partition("found ")[2]))
        return Node({}, Mark(path, 1, 1))
    if isinstance(node.value, str | tuple):
        found.append(Problem(node.mark, "", "a mapping at the top", "something else"))
        node = Node({}, node.mark)
    problems.extend(found)
    return node


def _model(model: type[M], node: Node, problems: list[Problem]) -> M | None:
    value, found = validate(model, node)
    problems.extend(found)
    return value


def _image(path: str, node: Node, tree: Tree, problems: list[Problem]) -> ImageFile | None:
    entries = node.children()
    names = Header.model_fields
    header = _model(Header, Node({k: v for k, v in entries.items() if k in names}, node.mark), problems)
    if header is None:
        return None
    problems.extend(_misnamed(path, header, node, tree))
    settings = Node({k: v for k, v in entries.items() if k not in names}, node.mark)
    variants = entries["variants"].value
    return ImageFile(path, header, node, settings, tuple(v for v in variants if isinstance(v, Node)))


def _misnamed(path: str, header: Header, node: Node, tree: Tree) -> list[Problem]:
    """A file must be where its header says, or a copy with a forgotten edit would shadow the original."""
    problems = []
    file = PurePosixPath(path)
    if header.framework != file.parent.name:
        mark = node.children()["framework"].mark
        problems.append(Problem(mark, "framework", f"{file.parent.name!r}, the folder's name", repr(header.framework)))
    name = f"{header.version}-{header.job}"
    if name != file.stem:
        mark = node.children()["version"].mark
        problems.append(Problem(mark, "version", f"the file's name {file.stem!r} (VERSION-JOB)", repr(name)))
    recipe = f"docker/{header.framework}/Dockerfile"
    if recipe not in tree:
        problems.append(Problem(node.children()["framework"].mark, "framework", f"its recipe {recipe}", "no such file"))
    return problems
