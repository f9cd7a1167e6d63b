"""Pins the dlc of a project for `dlc init`: `tool` in dlc.yml, its lock, and the wheel if it has no address."""

from __future__ import annotations

from pathlib import Path

from dlc.buildspec.project import read_project
from dlc.buildspec.tool_pin import TOOL_LOCK, ToolPin, read_named_tool, write_tool_lock
from dlc.core.atomic_files import replace_together, report_disk_errors, write_new_files
from dlc.core.checkout import PROJECT, SourceFile, read_text
from dlc.core.checkout import read_project as read_project_files
from dlc.core.errors import SpecError, UsageError
from dlc.image_build.tool_wheel import NoWheelError, ToolWheel, find_own_wheel, take_wheel

ENTRY = """
# The dlc that builds this project: its wheel, and the wheel's hash. {lock} has all that it needs.
tool:
  wheel: {wheel}
  sha256: {sha256}
"""


def choose_tool(word: str) -> tuple[ToolWheel | None, str]:
    """Return the wheel that the user names, else the one that this dlc was installed from, or why there is none."""
    if word:
        return take_wheel(word), ""
    try:
        return find_own_wheel(), ""
    except NoWheelError as error:
        return None, str(error)


def write_entry(pin: ToolPin) -> str:
    """Return what dlc.yml says of the pin."""
    return ENTRY.format(lock=TOOL_LOCK, wheel=pin.wheel, sha256=pin.sha256)


def list_tool_files(tool: ToolWheel, folder: Path) -> dict[str, str | bytes]:
    """Return the files that go with the pin; the wheel only if the project keeps it.

    Raises UsageError if another file has its name.
    """
    files: dict[str, str | bytes] = {TOOL_LOCK: write_tool_lock(tool.pin, tool.needs)}
    if not tool.data:
        return files
    path = folder / tool.pin.wheel
    with report_disk_errors(folder, ""):
        if path.exists() and path.read_bytes() != tool.data:
            raise UsageError(f"{path}: expected the wheel of {tool.pin.sha256[:12]}, found another file", "remove it")
    return {tool.pin.wheel: tool.data, **files}


def pin_tool(word: str, folder: Path) -> None:
    """Pin a wheel in a project that is there. Raises UsageError if it pins one already."""
    tree = read_project_files(folder)
    tool = take_wheel(word)
    if found := read_named_tool(tree):
        raise UsageError(
            f"{PROJECT}: tool: this project pins {found.wheel} already",
            f"write there wheel: {tool.pin.wheel}, sha256: {tool.pin.sha256}, put the wheel there, and `dlc lock`",
        )
    text = read_text(tree, PROJECT).rstrip("\n") + "\n" + write_entry(tool.pin)
    try:
        read_project({**tree, PROJECT: SourceFile(text.encode())})
    except SpecError as error:
        entry = write_entry(tool.pin).strip()
        raise UsageError(f"{PROJECT}: no key can be added at its end: {error.message}", f"write:\n{entry}") from None
    files = list_tool_files(tool, folder)
    lock = files.pop(TOOL_LOCK)
    with report_disk_errors(folder, ""):
        write_new_files(folder, {path: data for path, data in files.items() if not (folder / path).exists()})
        (folder / TOOL_LOCK).parent.mkdir(exist_ok=True)
        replace_together(folder, {TOOL_LOCK: str(lock), PROJECT: text})
    print(f"{PROJECT}: tool: dlc {tool.pin.version}, {tool.pin.wheel}\n{TOOL_LOCK}")
