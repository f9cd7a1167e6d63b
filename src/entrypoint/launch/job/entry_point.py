"""The user's program: where it is, of which type it is, and the command that runs it."""

from __future__ import annotations

import os
import posixpath
from typing import NamedTuple

from launch.base.errors import CONFIG, NO_INPUT, LaunchError, shown
from launch.plan.environment import module_name

SCRIPT, PACKAGE, SHELL, EXECUTABLE = "script", "package", "shell", "executable"

SETTING = "sagemaker_program"
MOST_NAMES_SHOWN = 10
LONGEST_SHEBANG = 256  # bytes, as in the kernel


class EntryPoint(NamedTuple):
    """A program below the code directory."""

    kind: str  # SCRIPT, PACKAGE, SHELL or EXECUTABLE
    name: str  # relative to the code directory, "/" between folders
    interpreter: tuple[str, ...] = ()  # of a shell script or executable: what its first line names

    @property
    def is_python(self) -> bool:
        return self.kind in (SCRIPT, PACKAGE)

    @property
    def module(self) -> str:
        """The dotted name under which `python -m` finds a package's program."""
        return module_name(self.name).replace("/", ".")

    def target(self) -> tuple[str, ...]:
        """What a launcher of Python processes (torchrun, ours) is given: the script, or -m and the module."""
        return ("-m", self.module) if self.kind == PACKAGE else (self.name,)

    def command(self, python: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """The argument list of one plain process. "--" keeps a script's name from being read as an option."""
        if self.kind == PACKAGE:
            return (python, "-m", self.module, *arguments)
        if self.kind == SCRIPT:
            return (python, "--", self.name, *arguments)
        return (*self.interpreter, f"./{self.name}", *arguments)


def relative_name(program: str, code: str) -> str:
    """`program` relative to the code directory: `train.py`, `./train.py`, absolute paths below it, names with spaces.

    Raises LaunchError: no program, or one outside the code directory.
    """
    if not program:
        raise LaunchError(
            CONFIG,
            "no entry point",
            where=SETTING,
            expected="the name of a script in the code directory",
            found="neither the hyperparameter sagemaker_program nor the variable SAGEMAKER_PROGRAM",
        )
    name = posixpath.normpath(posixpath.relpath(program, code) if program.startswith("/") else program)
    if name in (".", "..") or name.startswith("../"):
        raise LaunchError(CONFIG, "outside the code directory", where=SETTING, expected=f"a path below {code}",
                          found=shown(program))  # fmt: skip
    return name


def resolve(program: str, code: str) -> EntryPoint:
    """The entry point `program` in the folder `code`. An empty or absent folder is taken on trust (see `check`)."""
    name = relative_name(program, code)
    path = f"{code}/{name}"
    if name.endswith(".sh"):
        return EntryPoint(SHELL, name, _shebang(path) or ("/bin/sh",))
    if os.path.isfile(f"{code}/setup.py"):
        return EntryPoint(PACKAGE, name)
    if is_buildable(code) and not os.path.isfile(path):
        return EntryPoint(PACKAGE, name)
    if name.endswith(".py"):
        return EntryPoint(SCRIPT, name)
    return EntryPoint(EXECUTABLE, name, _shebang(path))


def check(entry: EntryPoint, code: str) -> None:
    """Raise LaunchError, naming what is there, unless the entry point's file is in the code directory."""
    if entry.kind == PACKAGE or os.path.isfile(f"{code}/{entry.name}"):
        return
    raise LaunchError(
        NO_INPUT,
        "no such entry point",
        where=f"{code}/{entry.name}",
        expected=f"the file that {SETTING} names",
        found=contents(code),
    )


def contents(code: str) -> str:
    """What is in the code directory, for messages."""
    try:
        names = sorted(os.listdir(code))
    except OSError:
        return f"no directory {code}"
    if not names:
        return f"an empty directory {code}"
    more = f" and {len(names) - MOST_NAMES_SHOWN} more" if len(names) > MOST_NAMES_SHOWN else ""
    return f"{', '.join(names[:MOST_NAMES_SHOWN])}{more}"


def is_buildable(code: str) -> bool:
    """Whether pip can install the folder: setup.py, or a pyproject.toml that names a build system.

    Many a pyproject.toml only configures linters, hence the second half (uv draws the same line).
    """
    if os.path.isfile(f"{code}/setup.py"):
        return True
    try:
        with open(f"{code}/pyproject.toml", encoding="utf-8", errors="replace") as file:
            return any(line.split("#")[0].strip() == "[build-system]" for line in file)
    except OSError:
        return False


def _shebang(path: str) -> tuple[str, ...]:
    """The interpreter that a script's first line names; run by name, a script needs no execute permission."""
    try:
        with open(path, "rb") as file:
            line = file.readline(LONGEST_SHEBANG)
    except OSError:
        return ()
    if not line.startswith(b"#!"):
        return ()
    # As the kernel does: the program, and everything after it as one argument.
    return tuple(os.fsdecode(part) for part in line[2:].strip().split(None, 1))
