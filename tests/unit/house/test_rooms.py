"""Rooms of each package import in one direction only: what a room may import stands here and nowhere else.

Imports inside functions count too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src"
MOST_ENTRIES = 12  # at the top of each, and of each folder of rooms
MOST_OF_DLC = 18  # docs/decisions/0057
MOST_LINES = 400

DLC = {
    "core": (),
    "checked_yaml": ("core",),
    "debian": ("core",),
    "engine": ("core", "debian"),
    "buildspec": ("core", "checked_yaml", "debian"),
    "plan": ("core", "checked_yaml", "debian", "buildspec"),
    "image_build": ("core", "checked_yaml", "debian", "engine", "buildspec", "plan"),
    "inspection": ("core", "checked_yaml", "debian", "engine", "buildspec", "plan", "image_build"),
    "registry": ("core", "engine", "plan", "inspection"),
    "proof": ("core", "checked_yaml", "buildspec", "plan", "inspection", "registry"),
    "site": ("core", "buildspec", "inspection"),
    "advice": ("core", "checked_yaml", "buildspec"),
    "job": ("core", "checked_yaml", "buildspec"),
    "places.records": ("core",),
    "places.place": ("core", "checked_yaml", "buildspec", "job"),
    "places.local": ("core", "engine", "job", "places.place"),
    "places.refusals": ("core", "buildspec", "job", "places.place"),
    "places.kubernetes": ("core", "buildspec", "job", "places.place", "places.refusals"),
    "places.slurm": ("core", "checked_yaml", "job", "places.place", "places.records", "places.refusals"),
    "places.sagemaker": ("core", "checked_yaml", "engine", "job", "places.place", "places.refusals"),
    "places.task_files": ("core", "job", "places.place", "places.refusals"),
    "places.skypilot": ("job", "places.place", "places.refusals", "places.task_files"),
    "places.dstack": ("job", "places.place", "places.refusals", "places.task_files"),
    "places.field_table": ("core", "job", "places.place"),
    "tune": ("core", "engine", "job", "places.local"),
    "cli": (
        *("core", "checked_yaml", "debian", "engine", "buildspec", "plan", "image_build", "inspection", "registry"),
        *("proof", "site", "advice", "tune", "job"),
        *("places.place", "places.records", "places.local", "places.field_table"),
    ),
    "__main__": ("core", "cli"),
}
LAUNCH = {
    "signals": (),
    "base": ("signals",),
    "discovery": ("signals", "base"),
    "job": ("signals", "base"),
    "plan": ("signals", "base", "discovery", "job"),
    "supervision": ("signals", "base"),
    "coordination": ("signals", "base", "discovery", "supervision"),
    "preflight": ("signals", "base", "discovery", "plan", "coordination"),
    "multi_host": ("signals", "base", "discovery", "plan", "supervision", "coordination", "preflight"),
    "train": (
        *("signals", "base", "discovery", "job", "plan", "supervision", "coordination", "preflight", "multi_host"),
    ),
    "main": ("signals", "base", "discovery", "job", "plan", "supervision", "preflight", "multi_host", "train"),
}
COMPILER = ("compiler.source_locations", "compiler.settings", "compiler.hooks")
RUNTIME = {
    "after_import": (),
    "steps": ("after_import",),
    "compiler.source_locations": (),
    "compiler.settings": (),
    "compiler.hooks": ("compiler.settings",),
    "compiler.cache": COMPILER,
    "compiler.choosing": ("compiler.cache",),
    "compiler.report": (*COMPILER, "compiler.choosing"),
    "compiler.pytorch": (*COMPILER, "compiler.cache", "compiler.choosing", "compiler.report"),
    "compiler.xla_graphs": ("compiler.report",),
    "compiler.pytorch_xla": (*COMPILER, "compiler.report", "compiler.xla_graphs"),
    "compiler.tensorflow_xla": (*COMPILER, "after_import", "compiler.cache", "compiler.choosing", "compiler.report"),
    "compiler.import_hook": (
        *COMPILER,
        "after_import",
        "compiler.pytorch",
        "compiler.pytorch_xla",
        "compiler.tensorflow_xla",
    ),
    "host": (),
    "profile": ("after_import", "host"),
    "scaling": ("profile",),
    "cluster_facts": (),
    "dataservice.errors": (),
    "dataservice.schedule": ("dataservice.errors",),
    "dataservice.wire": ("dataservice.errors",),
    "dataservice.server": (
        "cluster_facts",
        "host",
        "dataservice.errors",
        "dataservice.schedule",
        "dataservice.wire",
    ),
    "dataservice.client": (
        "cluster_facts",
        "dataservice.errors",
        "dataservice.schedule",
        "dataservice.wire",
    ),
    "dataservice.tensorflow": ("cluster_facts", "host", "dataservice.errors", "dataservice.wire"),
}
LINT = {
    "findings": (),
    "script": ("findings",),
    "rules": ("findings", "script"),
    "check": ("findings", "script", "rules"),
    "output": ("findings", "rules"),
    "command": ("findings", "script", "rules", "check", "output"),
    "__main__": ("command",),
}
CHANNEL = {"keys": (), "channel": ("keys",)}
PACKAGES = {
    SOURCES / "dlc": DLC,
    SOURCES / "entrypoint/launch": LAUNCH,
    SOURCES / "dlc_runtime": RUNTIME,
    SOURCES / "dlc_lint": LINT,
    SOURCES / "dlc_channel": CHANNEL,
}
# What speaks with other hosts; a host alone loads none of it.
SPEAKERS = {
    "entrypoint/launch": ("coordination", "preflight", "multi_host"),
    "dlc_runtime": ("dataservice.wire", "dataservice.server", "dataservice.client"),
}
FLOORS = sorted({(p, room.rpartition(".")[0]) for p, rooms in PACKAGES.items() for room in rooms if "." in room})
FRAMEWORKLESS = (
    *COMPILER,
    *("compiler.cache", "compiler.choosing", "compiler.report", "compiler.xla_graphs", "compiler.import_hook"),
)
FRAMEWORKS = ("torch", "torch_xla", "tensorflow", "keras")
ROOMS = [(package, room) for package, rooms in PACKAGES.items() for room in rooms]


def imported(file: Path, package: Path) -> Iterator[str]:
    """The rooms of `package` that a file imports, with the line: "engine at line 12"."""
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: expected an import by its full name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            top, _, rest = name.partition(".")
            if top == package.name and rest:
                yield f"{room_of(rest, PACKAGES[package])} at line {node.lineno}"


def room_of(module: str, rooms: Collection[str]) -> str:
    """`places.local.run` is in the room `places.local`; where no room holds the module, its first name."""
    return next((room for room in rooms if f"{module}.".startswith(f"{room}.")), module.partition(".")[0])


def place(package: Path, room: str) -> Path:
    return package / room.replace(".", "/")


def files(package: Path, room: str) -> list[Path]:
    folder = place(package, room)
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


@pytest.mark.parametrize(("package", "room"), ROOMS, ids=[f"{package.name}.{room}" for package, room in ROOMS])
def test_a_room_imports_only_rooms_below_it(package: Path, room: str) -> None:
    allowed = {room, *PACKAGES[package][room]}
    found = [
        f"{file.relative_to(SOURCES)} imports {name}"
        for file in files(package, room)
        for name in imported(file, package)
        if name.split()[0] not in allowed
    ]
    assert found == []


def test_only_what_runs_jobs_on_this_machine_imports_that_place() -> None:
    """A remote place takes no name from it: the table may not be widened for one."""
    assert {room for room, others in DLC.items() if "places.local" in others} == {"tune", "cli"}


def list_sources(folder: Path) -> set[str]:
    """Modules and packages; a room that moved may have left a folder of compiled files."""
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_room_is_in_the_table_and_they_are_few(package: Path) -> None:
    entries = list_sources(package)
    assert entries == {*(room.partition(".")[0] for room in PACKAGES[package]), "__init__"}
    assert len(entries) <= (MOST_OF_DLC if package.name == "dlc" else MOST_ENTRIES)


@pytest.mark.parametrize(("package", "floor"), FLOORS, ids=lambda x: str(x).rpartition("/")[2])
def test_a_folder_of_rooms_holds_only_rooms_of_the_table(package: Path, floor: str) -> None:
    entries = list_sources(package / floor)
    rooms = {room.removeprefix(f"{floor}.") for room in PACKAGES[package] if room.startswith(f"{floor}.")}
    assert entries == {*rooms, "__init__"}
    assert len(entries) <= MOST_ENTRIES


@pytest.mark.parametrize("room", FRAMEWORKLESS)
def test_what_both_frameworks_use_imports_neither(room: str) -> None:
    """Annotations may name them: that import never runs."""
    found = {
        f"{file.name}:{node.lineno}"
        for file in files(SOURCES / "dlc_runtime", room)
        for node in run_statements(ast.parse(file.read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.partition(".")[0] in FRAMEWORKS
    }
    assert found == set()


def run_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from run_statements(node)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_tables_own_rooms_are_below_each_other(package: Path) -> None:
    """Each room may import only rooms that stand before it: so there is no circle."""
    names = list(PACKAGES[package])
    assert all(names.index(other) < names.index(room) for room in names for other in PACKAGES[package][room])


@pytest.mark.parametrize(
    ("package", "room"), [(h, r) for h, r in ROOMS if place(h, r).is_dir()], ids=lambda x: str(x)[-20:]
)
def test_a_room_says_in_its_first_line_what_it_is_for_and_what_it_may_import(package: Path, room: str) -> None:
    text = ast.get_docstring(ast.parse((place(package, room) / "__init__.py").read_text())) or ""
    assert "mport" in text.partition("\n")[0] or room == "cli", text


def test_no_file_is_too_long_to_read_at_once() -> None:
    files = [file for room in ("src", "benchmarks", "scripts", "docker") for file in (ROOT / room).rglob("*.py")]
    lengths = {file.relative_to(ROOT).as_posix(): len(file.read_text().splitlines()) for file in files}
    assert [file for file, length in lengths.items() if length > MOST_LINES] == []


def imported_tops(file: Path) -> set[str]:
    """The packages and modules that a file imports, by their first names, annotations aside."""
    found = set()
    for node in run_statements(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found


def test_the_channel_imports_the_standard_library_alone_and_not_typing() -> None:
    tops = {top for file in (SOURCES / "dlc_channel").rglob("*.py") for top in imported_tops(file)}
    assert tops - sys.stdlib_module_names == {"dlc_channel"}
    assert "typing" not in tops


def test_the_channel_is_only_for_what_speaks_with_other_hosts() -> None:
    rooms = [(SOURCES / package, room) for package, named in SPEAKERS.items() for room in named]
    speakers = [file for package, room in rooms for file in files(package, room)]
    users = {file for file in SOURCES.rglob("*.py") if "dlc_channel" in imported_tops(file)}
    own = {*(SOURCES / "dlc_channel").rglob("*.py")}
    assert [file.relative_to(SOURCES).as_posix() for file in users - own - {*speakers}] == []


def test_no_verb_imports_a_verb() -> None:
    """What two verbs share is in `cli.shared`, which imports no verb either."""
    verbs = {f"dlc.cli.{file.stem}" for file in (SOURCES / "dlc/cli").glob("*.py")} - {"dlc.cli.__init__"}
    found = [
        f"{name} imports {module}"
        for name, tree in trees()
        if name.startswith("dlc/cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for module in ({node.module} | {f"{node.module}.{alias.name}" for alias in node.names}) & verbs
    ]
    assert found == []


def trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted((SOURCES / "dlc").rglob("*.py")):
        yield file.relative_to(SOURCES).as_posix(), ast.parse(file.read_text())


def test_only_the_engine_room_writes_command_lines_of_docker() -> None:
    """No list or tuple anywhere begins with the word: `Engine.docker` puts it there."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts
        if isinstance(node.elts[0], ast.Constant) and node.elts[0].value == "docker"
    ]
    assert found == []


def test_only_one_module_runs_programs() -> None:
    modules = {"subprocess", "multiprocessing", "pty"}
    found = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and modules & {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and node.module in modules)
    }
    # The probe runs inside images, where dlc is not.
    assert found - {"dlc/inspection/probe.py"} == {"dlc/core/process.py"}
