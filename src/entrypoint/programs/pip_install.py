"""pip without what nobody reads: "already satisfied" lines stay out; its reason is on stderr when it fails.

pip explains a conflict on stdout, where the log's last lines of stderr do not have it. Run with the image's Python.
A package (the argument ".") is built from a copy, because build tools leave files in the folder that they build, and by
what the environment has, if that is all the package asks for: pip alone would look for it on an index.
Usage: pip_install.py PIP-ARGUMENT...
"""

import contextlib
import fcntl
import importlib
import importlib.metadata
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TextIO

NOISE = ("Requirement already satisfied:", "Looking in indexes:", "Looking in links:")
PROGRESS = ("Collecting ", "Downloading ", "Using cached ", "Processing ", "Preparing ", "Installing ", "Getting ",
            "Building ", "Created wheel ", "Stored in ", "Obtaining ", "Successfully ", "INFO: ")  # fmt: skip
# Of a reason
MOST_LINES = 15
PACKAGE, REQUIREMENTS = ".", "requirements.txt"
# What builds leave at the top of a folder
LEFT_BY_BUILDS = ("build", "*.egg-info")
# From this version on setuptools makes wheels without the package wheel
SETUPTOOLS_ALONE = "70.1"

# pip turns the exception into an exit code like any other
_interrupts: list[int] = []


class Output:
    """A stdout that passes whole lines on, without the noise, and remembers the last that are no progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._unfinished = ""
        self.reason: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def end(self) -> None:
        """Pass on what came after the last newline, and all that the stream holds back."""
        if self._unfinished:
            self._line(self._unfinished)
        self._unfinished = ""
        self._stream.flush()

    def _line(self, line: str) -> None:
        said = line.strip()
        if said.startswith(NOISE):
            return
        self._stream.write(f"{line}\n")
        if said and not said.startswith(PROGRESS):
            self.reason = [*self.reason, line][-MOST_LINES:]


def _take_turns() -> None:
    """Wait for another pip of this environment: if each rank has a launcher, they all install at once."""
    with contextlib.suppress(OSError):
        # Given back when this process ends
        fcntl.flock(os.open(sys.prefix, os.O_RDONLY), fcntl.LOCK_EX)


def _interrupt(signum: int, _frame: object) -> None:
    _interrupts.append(signum)
    raise KeyboardInterrupt


def _frameworks() -> dict[str, str]:
    found = {}
    for name in ("torch", "tensorflow"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _say_what_is_replaced(before: dict[str, str]) -> None:
    for name, now in _frameworks().items():
        if now != (was := before.get(name, now)):
            words = (
                f"{name} {was} is replaced by {now}: what the image has compiled for it, such as Horovod, may not load"
            )
            print(f"dlc: {words}", file=sys.stderr)


def _copy_package(folder: str) -> str:
    """Return a copy of the code here, of links to its files: nothing of it is read, and it may be large."""
    copy = f"{folder}/package"
    own = {*LEFT_BY_BUILDS, ".git"}
    left_out = shutil.ignore_patterns(*own)

    def ignore(place: str, names: list[str]) -> set[str]:
        return left_out(place, names) if place == os.getcwd() else set()

    shutil.copytree(os.getcwd(), copy, symlinks=True, ignore=ignore, copy_function=os.symlink)
    if os.path.isdir(".git"):
        # Versions are read from it
        os.symlink(os.path.abspath(".git"), f"{copy}/.git")
    return copy


def _has_build_tools() -> bool:
    """Return whether the environment has all that the build of the package here asks for."""
    # pip's own, which this Python may not have
    from pip._vendor.packaging.requirements import Requirement

    asked = ["setuptools"]
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
    with contextlib.suppress(FileNotFoundError), open("pyproject.toml", "rb") as file:
        asked = toml.load(file).get("build-system", {}).get("requires", asked)
    if any(Requirement(each).name == "setuptools" for each in asked) and not _has(f"setuptools>={SETUPTOOLS_ALONE}"):
        asked = [*asked, "wheel"]
    return all(map(_has, asked))


def _has(asked: str) -> bool:
    from pip._vendor.packaging.requirements import Requirement

    requirement = Requirement(asked)
    if requirement.marker and not requirement.marker.evaluate():
        return True
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _install_package(folder: str) -> str:
    """Return what is left to install for the package here: by its name what it needs, or the copy with all of it.

    Installed first and alone: without isolation pip would build everything so, that of requirements.txt too.
    """
    copy, report = _copy_package(folder), f"{folder}/report"
    try:
        is_ready = _has_build_tools()
    except Exception:  # no two pips keep the same inside
        is_ready = False
    if not is_ready:
        return copy
    options = [word for word in sys.argv[1:] if word not in (PACKAGE, "-r", REQUIREMENTS)]
    own = ("--no-build-isolation", "--no-deps", "--report", report, copy)
    # Started elsewhere: a module of the code would stand in for pip's own
    command = [sys.executable, "-m", "pip", *options, *own]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print(
            "dlc: the package cannot be built by what the image has:", *done.stdout.splitlines()[-MOST_LINES:], sep="\n"
        )
        return copy
    with open(report, encoding="utf-8") as file:
        metadata = json.load(file)["install"][0]["metadata"]
    print(f"Successfully built and installed {metadata['name']}-{metadata['version']}")
    return f"{metadata['name']}=={metadata['version']}"


def _install(folder: str) -> None:
    """Run pip with our arguments; ends with SystemExit."""
    if PACKAGE in sys.argv:
        left = _install_package(folder)
        sys.argv = [left if word == PACKAGE else word for word in sys.argv]
    # This program's folder: nothing in it is for pip
    sys.path.pop(0)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


def main() -> int:
    """Run pip; tell its reason and return EX_UNAVAILABLE if it fails. A SIGINT ends us too, when pip has cleaned up."""
    output = Output(sys.stdout)
    sys.stdout = output
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    code: object = 0
    before: dict[str, str] = {}
    try:
        _take_turns()
        before = _frameworks()
        with tempfile.TemporaryDirectory(prefix="dlc-package-") as folder:
            _install(folder)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt as end:
        code = end
    output.end()
    if code and _interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if not code:
        _say_what_is_replaced(before)
        return 0
    for line in output.reason:
        print(line, file=sys.stderr)
    return os.EX_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
