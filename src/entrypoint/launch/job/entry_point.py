"""The user's program: where it is, of which type it is, and the command that runs it."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, DATA, NO_INPUT, LaunchError, shown

SCRIPT, PACKAGE, MODULE, CONSOLE, SHELL, EXECUTABLE = "script", "package", "module", "console", "shell", "executable"

SETTING = "sagemaker_program"
MOST_NAMES_SHOWN = 10
_MODULE = re.compile(r"-m\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
# Of a shell script: its line ends
LONGEST_LOOK_BYTES = 1 << 16
# As in the kernel
LONGEST_SHEBANG_BYTES = 256


class EntryPoint(NamedTuple):
    """A program: below the code directory, or what the image or requirements.txt installs (MODULE, CONSOLE)."""

    # SCRIPT, PACKAGE, MODULE, CONSOLE, SHELL or EXECUTABLE
    kind: str
    # Relative to the code directory, "/" between folders; of a MODULE dotted, of a CONSOLE script its name
    name: str
    # Of a shell script or executable: what its first line names
    interpreter: tuple[str, ...] = ()

    @property
    def is_python(self) -> bool:
        return self.kind in (SCRIPT, PACKAGE, MODULE)

    @property
    def program(self) -> str:
        """Spell it as the user would: SM_USER_ENTRY_POINT."""
        return f"-m {self.name}" if self.kind == MODULE else self.name

    @property
    def module(self) -> str:
        """Return the dotted name under which `python -m` finds a module or a package's program."""
        return self.name if self.kind == MODULE else module_name(self.name).replace("/", ".")

    def explain_package(self, folder: str) -> str:
        """Tell what makes this a package, which its name does not show; "" if it is something else."""
        if self.kind != PACKAGE:
            return ""
        mark = "setup.py" if os.path.isfile(f"{folder}/setup.py") else "pyproject.toml"
        return f", because {mark} is beside it: name a module of it (-m {self.module}), or move {mark} away"

    def target(self) -> tuple[str, ...]:
        """Return what torchrun, and our own launchers, are given: the script, or -m and the module."""
        if self.kind in (PACKAGE, MODULE):
            return ("-m", self.module)
        # No option of torchrun's
        return (f"./{self.name}" if self.name.startswith("-") else self.name,)

    def command(self, python: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return the arguments of one plain process. "--" keeps a script's name from being an option."""
        if self.kind in (PACKAGE, MODULE):
            return (python, "-m", self.module, *arguments)
        if self.kind == CONSOLE:
            return (f"{os.path.dirname(python)}/{self.name}", *arguments)
        if self.kind == SCRIPT:
            return (python, "--", self.name, *arguments)
        return (*self.interpreter, f"./{self.name}", *arguments)


def module_name(program: str) -> str:
    """Return the program without its .py, or the -m before a module."""
    module = _MODULE.fullmatch(program)
    if module:
        return module[1]
    return program[:-3] if program.endswith(".py") else program


def relative_name(program: str, code: str, setting: str = SETTING) -> str:
    """Return a path relative to the code directory, of `train.py`, `./train.py`, absolute paths, names with spaces.

    `setting` is what names it. Raises LaunchError: no program, or one outside the code directory.
    """
    if not program:
        raise LaunchError(
            CONFIG,
            "no entry point",
            where=setting,
            expected="the name of a script in the code directory",
            found="neither the hyperparameter sagemaker_program nor the variable SAGEMAKER_PROGRAM",
        )
    name = posixpath.normpath(posixpath.relpath(program, code) if program.startswith("/") else program)
    if name in (".", "..") or name.startswith("../"):
        raise LaunchError(CONFIG, "outside the code directory", where=setting, expected=f"a path below {code}",
                          found=shown(program))  # fmt: skip
    return name


def resolve_entry_point(
    program: str, folder: str, code: str = "", venv: str = "", setting: str = SETTING
) -> EntryPoint:
    """Return the entry point `program`; `folder` shows what the code directory `code` holds or will hold.

    An empty or absent folder is taken on trust (see `check`). Raises LaunchError: see `relative_name`.
    """
    module = _MODULE.fullmatch(program)
    if module:
        return EntryPoint(MODULE, module[1])
    name = relative_name(program, code or folder, setting)
    path = f"{folder}/{name}"
    if not os.path.exists(path) and _is_console_script(name, folder, venv):
        return EntryPoint(CONSOLE, name)
    return _resolve_file(name, path, folder)


def _is_console_script(name: str, folder: str, venv: str) -> bool:
    """Return whether it is, or may be once installed, a program of the virtual environment."""
    if "/" in name or name.endswith((".py", ".sh")):
        return False
    if venv and os.access(f"{venv}/bin/{name}", os.X_OK):
        return True
    installs = is_buildable(folder) or os.path.isfile(f"{folder}/requirements.txt")
    # A package's program is a module's name, which a console script need not be.
    return installs and (not name.isidentifier() or not is_buildable(folder))


def _resolve_file(name: str, path: str, code: str) -> EntryPoint:
    if name.endswith(".sh"):
        return EntryPoint(SHELL, name, _interpreter(path) or ("/bin/sh",))
    if os.path.isfile(f"{code}/setup.py"):
        return EntryPoint(PACKAGE, name)
    if is_buildable(code) and not os.path.isfile(path):
        return EntryPoint(PACKAGE, name)
    if name.endswith(".py"):
        return EntryPoint(SCRIPT, name)
    return EntryPoint(EXECUTABLE, name, _interpreter(path))


def check_entry_point(entry: EntryPoint, code: str, setting: str = SETTING) -> None:
    """Raise LaunchError, naming what is there, unless the entry point's file is in the code directory and can run."""
    path = f"{code}/{entry.name}"
    if entry.kind in (PACKAGE, MODULE, CONSOLE):
        return
    if os.path.isdir(path):
        raise LaunchError(
            NO_INPUT,
            "a folder is no entry point",
            where=path,
            expected=f"the file that {setting} names",
            found=list_contents(path),
            remedy=f"name a file in it, such as {entry.name}/train.py",
        )
    if os.path.isfile(path):
        _require_runnable(entry, path)
        return
    raise LaunchError(
        NO_INPUT,
        "no such entry point",
        where=f"{code}/{entry.name}",
        expected=f"the file that {setting} names",
        found=list_contents(code),
    )


def _require_runnable(entry: EntryPoint, path: str) -> None:
    """Raise LaunchError for a notebook, and for a shell script with the line ends of Windows."""
    if entry.name.endswith(".ipynb"):
        remedy = f"write it as a script: jupyter nbconvert --to script {entry.name}"
        raise LaunchError(CONFIG, "a notebook is no program", where=path, expected="a script", remedy=remedy)
    if entry.kind == SHELL and _has_windows_line_ends(path):
        raise LaunchError(
            DATA,
            "the line ends are those of Windows (CRLF), which a shell takes for a part of each line's last word",
            where=path,
            expected="LF",
            remedy=f"convert it: sed -i 's/\\r$//' {entry.name}, and in git: *.sh text eol=lf in .gitattributes",
        )


def _has_windows_line_ends(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"\r\n" in file.read(LONGEST_LOOK_BYTES)
    except OSError:
        return False


def make_executable(entry: EntryPoint, code: str) -> None:
    """Let an executable that nothing else interprets be executed: S3, and so a channel, keeps no permissions.

    A file that is another user's stays as it is, and its start says what is wrong.
    """
    path = f"{code}/{entry.name}"
    if entry.kind != EXECUTABLE or entry.interpreter or os.access(path, os.X_OK):
        return
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        # For whoever may read it
        os.chmod(path, mode | (mode & 0o444) >> 2)


def list_contents(code: str) -> str:
    """Return what is in the code directory, for messages."""
    try:
        names = sorted(os.listdir(code))
    except OSError:
        return f"no directory {code}"
    if not names:
        return f"an empty directory {code}"
    more = f" and {len(names) - MOST_NAMES_SHOWN} more" if len(names) > MOST_NAMES_SHOWN else ""
    return f"{', '.join(names[:MOST_NAMES_SHOWN])}{more}"


def is_buildable(code: str) -> bool:
    """Return whether pip can install the folder: setup.py, or a pyproject.toml that names a build system.

    Many a pyproject.toml only configures linters, hence the second half (uv draws the same line).
    """
    if os.path.isfile(f"{code}/setup.py"):
        return True
    try:
        with open(f"{code}/pyproject.toml", encoding="utf-8", errors="replace") as file:
            return any(line.split("#")[0].strip() == "[build-system]" for line in file)
    except OSError:
        return False


def _interpreter(path: str) -> tuple[str, ...]:
    """Return what runs a script without execute permission: what its first line names, for other text the shell.

    () for a program, which runs by itself. Shells run a text that names nothing, the kernel refuses it.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(LONGEST_SHEBANG_BYTES)
    except OSError:
        return ()
    line = start.partition(b"\n")[0]
    # As the kernel does: the program, and everything after it as one argument.
    named = line[2:].strip().split(None, 1) if line.startswith(b"#!") else []
    if named:
        return tuple(map(os.fsdecode, named))
    return ("/bin/sh",) if start and b"\0" not in start and not start.startswith(b"\x7fELF") else ()
