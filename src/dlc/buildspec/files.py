"""The files of buildspec/ read into typed values and marked layers, with every problem of every file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import Version

from dlc.buildspec.models import Compat, Header, Pins, Settings
from dlc.buildspec.versions import parse_number
from dlc.checked_yaml.problems import Mark, Problem
from dlc.checked_yaml.validation import M, describe_node, validate_node
from dlc.checked_yaml.yaml_layers import Node, parse_yaml
from dlc.core.checkout import Tree, read_text
from dlc.core.errors import SpecError

DEFAULTS, PINS, COMPAT = "buildspec/defaults.yml", "buildspec/pins.yml", "buildspec/compat.yml"


@dataclass(frozen=True)
class ImageFile:
    """One image file: what names its images, the settings common to all of them, and each variant's own.

    A wrong header is None, so that the settings are checked all the same.
    """

    path: str
    header: Header | None
    node: Node
    settings: Node
    variants: tuple[Node, ...]


@dataclass(frozen=True)
class Buildspec:
    """All files; a file that cannot be used is None here, and `problems` says why."""

    defaults: Node | None
    pins: Pins | None
    compat: Compat | None
    compat_node: Node | None
    images: tuple[ImageFile, ...]
    problems: tuple[Problem, ...]


def read_buildspec(tree: Tree) -> Buildspec:
    """Read every YAML file of `tree` below buildspec/."""
    problems: list[Problem] = []
    defaults = _read_defaults(tree, problems)
    pins = _read_model(Pins, _parse_file(tree, PINS, problems), problems)
    compat_node = _parse_file(tree, COMPAT, problems)
    compat = _read_model(Compat, compat_node, problems)
    paths = sorted((path for path in tree if PurePosixPath(path).match("buildspec/*/*.yml")), key=_by_version)
    nodes = {path: _parse_file(tree, path, problems) for path in paths}
    images = [_read_image(path, node, tree, problems) for path, node in nodes.items() if node]
    for path in sorted(path for path in tree if path.startswith("buildspec/") and path.endswith(".yaml")):
        problems.append(Problem(Mark(path, 1, 1), "", f"the name {PurePosixPath(path).stem}.yml", "another ending"))
    if not paths:
        problems.append(Problem(Mark("buildspec", 1, 1), "", "an image file such as pytorch/2.13-training.yml", "none"))
    return Buildspec(defaults, pins, compat, compat_node, tuple(images), tuple(problems))


def _read_defaults(tree: Tree, problems: list[Problem]) -> Node | None:
    """Return the lowest layer; None if it lacks settings, because every image would lack them too."""
    node = _parse_file(tree, DEFAULTS, problems)
    if node is None:
        return None
    missing = [name for name, field in Settings.model_fields.items() if field.is_required() and not node.at((name,))]
    if missing and not node.children():
        problems.append(Problem(node.mark, "", f"every setting ({', '.join(missing)})", "an empty file"))
    else:
        _read_model(Settings, node, problems)
    return None if missing else node


def _by_version(path: str) -> tuple[str, Version, str]:
    """Return a key that sorts 2.9 before 2.13."""
    folder, _, name = path.rpartition("/")
    return folder, parse_number(name), name


def _parse_file(tree: Tree, path: str, problems: list[Problem]) -> Node | None:
    try:
        node, found = parse_yaml(read_text(tree, path), path)
    except SpecError as error:
        node, found = None, [Problem(Mark(path, 1, 1), "", "a YAML file", error.message.partition("found ")[2])]
    if node and isinstance(node.value, str | tuple):
        found.append(Problem(node.mark, "", "a mapping", describe_node(node)))
        node = None
    problems.extend(found)
    return node


def _read_model(model: type[M], node: Node | None, problems: list[Problem]) -> M | None:
    if node is None:
        return None
    value, found = validate_node(model, node)
    problems.extend(found)
    return value


def _read_image(path: str, node: Node, tree: Tree, problems: list[Problem]) -> ImageFile:
    entries = node.children()
    names = Header.model_fields
    header = _read_model(Header, Node({k: v for k, v in entries.items() if k in names}, node.mark), problems)
    if header:
        problems.extend(_check_names(path, header, node, tree))
    settings = Node({k: v for k, v in entries.items() if k not in names}, node.mark)
    listed = entries["variants"].value if "variants" in entries else ()
    variants = listed if isinstance(listed, tuple) and listed else (Node({}, node.mark),)
    return ImageFile(path, header, node, settings, variants)


def _check_names(path: str, header: Header, node: Node, tree: Tree) -> list[Problem]:
    """Return problems with a file whose name or folder does not fit its header, such as a copy that was not edited."""
    problems = []
    file = PurePosixPath(path)
    if header.framework != file.parent.name:
        mark = node.children()["framework"].mark
        problems.append(Problem(mark, "framework", f"{file.parent.name!r}, the folder's name", repr(header.framework)))
    name = f"{header.version}-{header.job}"
    if name != file.stem:
        mark = node.children()["version"].mark
        problems.append(Problem(mark, "version", f"the file's name {file.stem!r} (VERSION-JOB)", repr(name)))
    dockerfile = f"docker/{header.framework}/Dockerfile"
    if dockerfile not in tree:
        problems.append(Problem(node.children()["framework"].mark, "framework", f"the file {dockerfile}", "none"))
    return problems
