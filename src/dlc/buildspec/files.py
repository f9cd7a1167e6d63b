"""The files of buildspec/ read into typed values and marked layers, with every problem of every file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from packaging.version import Version
from pydantic import BaseModel, ValidationError

from dlc.buildspec.models import MEANINGS, Compat, Header, Pins, Settings
from dlc.buildspec.problems import Mark, Problem, did_you_mean
from dlc.buildspec.versions import parse_number
from dlc.buildspec.yaml_layers import Node, parse_yaml
from dlc.core.checkout import Tree, read_text
from dlc.core.environment import hide_password, hide_passwords
from dlc.core.errors import SpecError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULTS, PINS, COMPAT = "buildspec/defaults.yml", "buildspec/pins.yml", "buildspec/compat.yml"
M = TypeVar("M", bound=BaseModel)


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


def validate_node(model: type[M], node: Node) -> tuple[M | None, list[Problem]]:
    """Return the model of `node`, or None and every problem that keeps it from being a model."""
    try:
        return model.model_validate(node.plain()), []
    except ValidationError as error:
        return None, [_explain_error(details, model, node) for details in error.errors(include_url=False)]


def _explain_error(details: ErrorDetails, model: type[BaseModel], root: Node) -> Problem:
    # pydantic appends "[key]" if the key itself is wrong.
    steps = tuple(step for step in details["loc"] if step != "[key]")
    path = _join_path(steps)
    node = root.at(steps)
    if node is None:
        parent = root.at(steps[:-1]) or root
        return Problem(parent.mark, path, f"a value for {steps[-1]}", "none")
    mark = node.key_mark or node.mark
    if details["type"] == "extra_forbidden":
        fields = _find_model(model, steps[:-1]).model_fields
        known = sorted(field.alias or name for name, field in fields.items())
        name = str(steps[-1])
        return Problem(mark, path, f"one of {', '.join(known)}", f"unknown key {name!r}", did_you_mean(name, known))
    expected = _describe_expected(details)
    found = describe_node(node, is_address="address" in expected)
    return Problem(mark if "[key]" in details["loc"] else node.mark, path, expected, found)


def _describe_expected(details: ErrorDetails) -> str:
    context: dict[str, Any] = details.get("ctx", {})
    if details["type"] == "string_pattern_mismatch":
        return MEANINGS[context["pattern"]]
    if details["type"] in ("tuple_type", "list_type"):
        return "a list"
    if details["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return "a mapping"
    if details["type"] == "string_type":
        return "text"
    if details["type"] == "value_error":
        return str(context["error"])
    return details["msg"].replace("Input should be ", "")


def describe_node(node: Node, *, is_address: bool = False) -> str:
    """Describe the value of a node, short enough for one line. An address is shown without its password."""
    if isinstance(node.value, tuple):
        return f"a list of {len(node.value)}"
    if not isinstance(node.value, str):
        return "a mapping"
    text = hide_password(node.value) if is_address else hide_passwords(node.value)
    return repr(text[:80]) if node.value else "nothing"


def _join_path(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _find_model(model: type[BaseModel], steps: tuple[str | int, ...]) -> type[BaseModel]:
    """Find the model that describes the mapping at `steps`, for the names that it knows."""
    kind: Any = model
    for step in steps:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(step)].annotation
        else:
            # This is dict[key, value] or tuple[item, ...].
            kind = get_args(kind)[0 if isinstance(step, int) else 1]
    found: type[BaseModel] = kind
    return found
