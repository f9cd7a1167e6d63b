"""The dlc that a project pins, as it pins its packages: a wheel by its hash, and the lock of what it needs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from dlc.buildspec.project import TOOL_LOCK as TOOL_LOCK
from dlc.buildspec.project import read_project
from dlc.core.checkout import PROJECT, Tree
from dlc.core.errors import LockError, SpecError

# What a wheel of dlc has, and a checkout: what dlc needs, with hashes (scripts/lock-tool.sh writes it).
NEEDS = "requirements-run.lock"
HEAD = f"""\
# The dlc of this project, as dlc.yml says, and all that it needs. `dlc lock` writes this file.
# In the folder of dlc.yml: pip install --require-hashes -r {TOOL_LOCK}
"""
PIN = "dlc init --tool FILE (or the https address) of a wheel of dlc"


@dataclass(frozen=True)
class ToolPin:
    """A wheel of dlc: `wheel` is a path from the project's folder, or an https address; `sha256` in hex."""

    wheel: str
    sha256: str

    @property
    def is_address(self) -> bool:
        """Tell whether the wheel is somewhere else than in the project."""
        return self.wheel.startswith("https://")

    @property
    def version(self) -> str:
        """Return the version that the wheel's name says."""
        return unquote(self.wheel.rpartition("/")[2]).split("-")[1]

    @property
    def requirement(self) -> str:
        """Return the wheel as pip and uv take it in a file of requirements, with its hash."""
        word = f"dlc @ {self.wheel}" if self.is_address else f"./{self.wheel}"
        return f"{word} \\\n    --hash=sha256:{self.sha256}\n"


def read_tool_pin(tree: Tree) -> ToolPin | None:
    """Return the dlc that the project pins; None if it pins none.

    Raises LockError if its lock is missing or of another wheel, SpecError as `read_project` does.
    """
    pin = read_named_tool(tree)
    if pin is None:
        return None
    lock = tree[TOOL_LOCK].data.decode(errors="replace") if TOOL_LOCK in tree else ""
    entries = re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE)
    if not entries.startswith(pin.requirement):
        found = " ".join(entries.replace("\\", "").split()[:3]) or "no such file"
        expected = " ".join(pin.requirement.replace("\\", "").split())
        raise LockError(f"{TOOL_LOCK}: expected {expected}, as {PROJECT} says, found {found[:200]}", "dlc lock")
    return pin


def read_named_tool(tree: Tree) -> ToolPin | None:
    """Return the dlc that the project's dlc.yml names, whatever its lock holds; None if it names none."""
    project = read_project(tree)
    tool = project.file.tool if project else None
    return ToolPin(tool.wheel, tool.sha256) if tool else None


def require_tool_pin(tree: Tree) -> ToolPin:
    """Return the dlc that the project pins, for what installs it elsewhere. Raises SpecError if it pins none."""
    if pin := read_tool_pin(tree):
        return pin
    raise SpecError(f"{PROJECT}: expected `tool`, the wheel of dlc that this project is built with, found none", PIN)


def write_tool_lock(pin: ToolPin, needs: str) -> str:
    """Return the text of TOOL_LOCK. `needs` is the text of NEEDS that the wheel has."""
    return HEAD + pin.requirement + needs
