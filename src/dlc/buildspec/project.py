"""A project's dlc.yml, a user's own image: read as one more layer of settings on top of a released image. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from packaging.version import Version
from pydantic import AfterValidator, Field

import dlc
from dlc.buildspec.models import Budget, Index, IndexName, Line, Name, OsPackage, OwnRequirement, User, Variable
from dlc.buildspec.requirement_forms import is_bare
from dlc.buildspec.variant import Variant, normal_name
from dlc.checked_yaml.patterns import DIGEST, LINE, NO_SPACES, REPOSITORY, REQUIRES, WHEEL
from dlc.checked_yaml.patterns import INDEX as DASHED
from dlc.checked_yaml.problems import Problem, did_you_mean, raise_report, require_value
from dlc.checked_yaml.validation import Model, describe_node, validate_node
from dlc.checked_yaml.yaml_layers import Node, parse_yaml
from dlc.core.checkout import PROJECT, Tree, read_text
from dlc.core.errors import SpecError
from dlc.core.platforms import split_suffix

# In the project's folder. pip and uv take the wheel's path in it from the folder that they are called in.
TOOL_LOCK = "locks/tool.txt"
INSTALL_TOOL = f"pip install --require-hashes -r {TOOL_LOCK}, in an environment of its own"
# A Docker tag has at most 128 characters; the released part of it is the rest.
LONGEST_NAME = 40
# What --set adds to a reference, and `dlc clean` removes.
OF_SET = "set-"


def _free_name(text: str) -> str:
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name of at most {LONGEST_NAME} characters")
    if f"-{text}".find(f"-{OF_SET}") >= 0:
        raise ValueError(f"a name without `{OF_SET}`, which --set gives to its images")
    return text


class Tool(Model):
    """The dlc that a project is built with: a wheel, and its hash."""

    wheel: Annotated[str, Field(pattern=WHEEL)] = Field(description="a path in the project, or an https address")
    sha256: Annotated[str, Field(pattern=DIGEST)] = Field(description="its hash")


class ProjectFile(Model):
    """dlc.yml: what an image of one's own adds to a released one."""

    requires: Annotated[str, Field(pattern=REQUIRES)] = Field(
        default="", description="the oldest dlc that understands this project"
    )
    name: Annotated[str, Field(pattern=DASHED), AfterValidator(_free_name)] = Field(
        description="last part of the image's name"
    )
    start: Annotated[str, Field(pattern=NO_SPACES)] = Field(alias="from", description="the released image")
    script: Annotated[str, Field(pattern=LINE)] = Field(default="train.py", description="what `dlc run` runs")
    packages: tuple[OwnRequirement, ...] = Field(default=(), description="Python packages on top, or in other versions")
    os_packages: tuple[OsPackage, ...] = Field(default=(), description="Debian packages on top")
    env: dict[Variable, Line] = Field(default={}, description="environment variables of the image")
    labels: dict[Name, str] = Field(default={}, description="labels of the image")
    user: User | None = Field(default=None, description="who runs in the image: NAME, or name and uid")
    indexes: dict[IndexName, Index] = Field(default={}, description="indexes for packages of one's own")
    repository: Annotated[str, Field(pattern=REPOSITORY)] = Field(
        default="", description="first part of the image's reference; default: the name"
    )
    budget: Budget | None = Field(default=None, description="how large the image may become")
    tool: Tool | None = Field(default=None, description="the dlc that this project is built with")


@dataclass(frozen=True)
class Project:
    """The values of a dlc.yml, and the places where they are written."""

    file: ProjectFile
    node: Node

    @property
    def id(self) -> str:
        """Return the identifier of its image."""
        start, platform = split_suffix(self.file.start)
        return f"{start}-{self.file.name}{platform.suffix}"


def read_project(tree: Tree) -> Project | None:
    """Read the project's file; None if the tree has none.

    Raises SpecError with every problem of the file, or with the one that it asks for a newer dlc.
    """
    if PROJECT not in tree:
        return None
    node, problems = parse_yaml(read_text(tree, PROJECT), PROJECT)
    if node and isinstance(node.value, str | tuple):
        problems = [*problems, Problem(node.mark, "", "a mapping", describe_node(node))]
        node = None
    node = _spell_out_user(require_value(node, problems))
    _require_version(node)
    return Project(require_value(*validate_node(ProjectFile, node)), node)


def _spell_out_user(node: Node) -> Node:
    """Return the file with `user: {name: NAME}` in the place of `user: NAME`."""
    user = node.at(("user",))
    if user is None or not isinstance(user.value, str):
        return node
    return replace(node, value={**node.children(), "user": replace(user, value={"name": user})})


def _require_version(node: Node) -> None:
    """Raise SpecError if the project asks for a newer dlc: the rest of its file may be nothing that this one knows."""
    asked = node.at(("requires",))
    if asked is None or not isinstance(asked.value, str) or not re.fullmatch(REQUIRES, asked.value):
        return
    wanted = asked.value.partition(">=")[2].strip()
    if Version(wanted) > Version(dlc.__version__):
        raise SpecError(
            f"{asked.mark}: requires: expected dlc {wanted} or newer, found dlc {dlc.__version__}",
            # Not by its name from an index: whoever has that name there could answer.
            INSTALL_TOOL
            if node.at(("tool",))
            else f"pip install dlc-VERSION-py3-none-any.whl, of release {wanted} or newer",
        )


def list_own_images(tree: Tree) -> tuple[str, ...]:
    """Return the identifiers of the images that the project in this tree makes; none without a project."""
    found = read_project(tree)
    return (found.id,) if found else ()


def require_script(project: Project, file: Path) -> None:
    """Raise SpecError, with its line, if the script that the project names is not there."""
    if not file.is_file():
        said = project.node.at(("script",))
        found = f"no file {file}" if said else f"no file {file}, which is meant if dlc.yml names none"
        mark = (said or project.node).mark
        raise_report([Problem(mark, "script", "the file of an entry point", found, "dlc run SCRIPT runs another one")])


def list_bare_names(project: Project) -> list[str]:
    """List the packages that the project names without a version."""
    return [normal_name(each) for each in project.file.packages if is_bare(each)]


def find_base(project: Project, variants: Sequence[Variant]) -> Variant:
    """Return the released image that the project starts from. Raises SpecError if there is none of that name."""
    for variant in variants:
        if variant.id == project.file.start:
            _require_other_packages(project, variant)
            return variant
    known = [variant.id for variant in variants]
    near = did_you_mean(project.file.start, known)
    mark = (project.node.at(("from",)) or project.node).mark
    problem = Problem(mark, "from", "an image of `dlc list '*'`", repr(project.file.start), near)
    raise SpecError(str(problem), "" if near else f"one of {', '.join(known)}")


def _require_other_packages(project: Project, base: Variant) -> None:
    """Raise the report of packages that make the framework: another version of it is another released image."""
    pinned = {normal_name(each): each for each in base.framework_requirements}
    listed = project.node.at(("packages",))
    raise_report(
        Problem(
            ((listed and listed.at((number,))) or project.node).mark, f"packages[{number}]",
            f"no package that {base.id} is made for ({pinned[normal_name(each)]})", repr(each),
            "another `from` has another version",
        )
        for number, each in enumerate(project.file.packages) if normal_name(each) in pinned
    )  # fmt: skip


def make_layer(project: Project, base: Variant) -> Node:
    """Return the settings that the project lays on top of an image. Each keeps its place in dlc.yml."""
    file, node = project.file, project.node
    name = node.at(("name",)) or node
    flavor = "-".join(part for part in (base.settings.flavor, file.name) if part)
    entries = {
        "flavor": replace(name, value=flavor),
        "repository": node.at(("repository",)) or name,
        # It is for the platform of the image that it starts from.
        "platforms": replace(name, value=()),
    }
    if packages := node.at(("packages",)):
        training = _join(base, ("packages", "training"), packages)
        entries["packages"] = replace(packages, value={"training": training, "missing": _ask_for_missing(file, base)})
    if debian := node.at(("os_packages",)):
        entries["os_packages"] = _join(base, ("os_packages",), debian)
    entries |= {key: child for key in ("env", "labels", "indexes", "budget", "user") if (child := node.at((key,)))}
    return Node(entries, node.mark)


def _ask_for_missing(file: ProjectFile, base: Variant) -> Node:
    """Return `packages.missing` without a reason for what the project names: whoever names a package wants it."""
    found = base.node.at(("packages", "missing")) or Node({}, base.node.mark)
    wanted = {normal_name(each) for each in file.packages}
    kept = {name: reason for name, reason in found.children().items() if normal_name(name) in wanted}
    return replace(found, value={name: replace(reason, value="") for name, reason in kept.items()})


def _join(base: Variant, setting: tuple[str, ...], own: Node) -> Node:
    """Return a list of the released image with the project's entries behind it. Of two with one name the later wins."""
    before = base.node.at(setting)
    items = before.value if before and isinstance(before.value, tuple) else ()
    added = own.value if isinstance(own.value, tuple) else ()
    known = {item.plain() for item in items}
    return replace(own, value=(*items, *(item for item in added if item.plain() not in known)))


def name_as_written(problem: Problem) -> Problem:
    """Return a problem with the name that a setting has in dlc.yml."""
    if problem.mark.file != PROJECT:
        return problem
    return replace(problem, path=re.sub(r"^packages\.training\[\d+\]", "packages", problem.path))


def find_collision(project: Project, own: Variant, others: Iterable[Variant]) -> list[Problem]:
    """Return a problem if a released image has the project's identifier, or its reference."""
    mark = (project.node.at(("name",)) or project.node).mark
    return [
        Problem(mark, "name", "a name that no released image has", repr(project.file.name), f"{other.id} is one")
        for other in others
        if own.id == other.id or own.ref == other.ref
    ]
