"""`make check`: ruff, mypy of the packages that changed, and the unit tests of what changed since main.

What changed: the commits since the merge base with main, and what is not committed. mypy's commands are those of
scripts/lint.sh.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = "tests/unit"
# Beginning of a changed path -> the tests that hold it; the first that fits counts
TESTS = {
    # Every room uses these
    "src/dlc/core/": ("tests/unit/dlc", "tests/unit/house"),
    "src/dlc/checked_yaml/": ("tests/unit/dlc",),
    "src/dlc_lint/": ("tests/unit/lint",),
    "src/dlc_runtime/compiler/": ("tests/unit/runtime/compiler",),
    "src/dlc_runtime/dataservice/": ("tests/unit/runtime/dataservice",),
    "src/dlc_runtime/profile/": ("tests/unit/runtime/profile",),
    "src/dlc_runtime/scaling/": ("tests/unit/runtime/scaling",),
    # What several packages use
    "src/dlc_runtime/": ("tests/unit/runtime",),
    "src/entrypoint/": ("tests/unit/entrypoint",),
    "src/dlc_channel/": ("tests/unit/channel",),
    "buildspec/": ("tests/unit/dlc", "tests/unit/house"),
    "docker/": ("tests/unit/dlc", "tests/unit/docker", "tests/unit/house"),
    "docs/launcher": ("tests/unit/entrypoint/test_reference.py", "tests/unit/house/test_pages.py"),
    "docs/lint/": ("tests/unit/lint/test_lint_pages.py", "tests/unit/house/test_pages.py"),
    "docs/": ("tests/unit/house/test_pages.py",),
    "README.md": ("tests/unit/house/test_readme.py", "tests/unit/house/test_pages.py"),
    "CONTRIBUTING.md": ("tests/unit/house/test_pages.py",),
    "Makefile": ("tests/unit/house/test_readme.py",),
    "scripts/": ("tests/unit/house/test_check.py", "tests/unit/entrypoint/test_reference.py"),
    "tests/harness/": (UNIT,),
    "tests/contract/": ("tests/unit/entrypoint",),
    "tests/unit/conftest.py": (UNIT,),
    "tests/unit/golden/": ("tests/unit/dlc",),
}
VERBS = f"{UNIT}/dlc/cli"
# Of every change to src: imports, circles, prose
OF_ALL_SOURCES = tuple(f"tests/unit/house/test_{rule}.py" for rule in ("rooms", "circles", "style"))


def main() -> int:
    """Run the checks; return 0 if all are well."""
    started = time.monotonic()
    changed = find_changed()
    tests = [name for name in choose_tests(changed) if (ROOT / name).exists()]
    python = sys.executable
    commands = [
        [python, "-m", "ruff", "check", "."],
        [python, "-m", "ruff", "format", "--check", "."],
        *([python, "-m", *words] for words in choose_mypy(changed, (ROOT / "scripts/lint.sh").read_text())),
    ]
    if tests:
        commands.append([python, "-m", "pytest", "-q", "-n", "auto", *tests])
    failed = [command for command in commands if not run_command(command[2:], command)]
    if not tests:
        print("no unit test holds what changed since main" if changed else "nothing changed since main")
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def find_changed() -> set[str]:
    """Return the paths that differ from the merge base with main; those that are new and not ignored too."""
    bases = (ask_git("merge-base", "HEAD", name) for name in ("main", "origin/main", "HEAD"))
    base = next((lines[0] for lines in bases if lines), "HEAD")
    return {*ask_git("diff", "--name-only", base), *ask_git("ls-files", "--others", "--exclude-standard")}


def ask_git(*words: str) -> list[str]:
    """Return the lines of git's answer; none if git fails, as for a branch that is not there."""
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return [] if found.returncode else found.stdout.splitlines()


def choose_mypy(changed: Collection[str], lint: str) -> list[list[str]]:
    """Return those commands of lint.sh that run mypy on a package with changes."""
    commands = [line.split() for line in lint.splitlines() if line.startswith("mypy ")]
    return [words for words in commands if any(path.startswith(f"{words[-1]}/") for path in changed)]


def choose_tests(changed: Collection[str]) -> list[str]:
    """Return the unit tests of what changed: files and folders, without those below another."""
    chosen: set[str] = set()
    for path in changed:
        known = next((tests for start, tests in TESTS.items() if path.startswith(start)), ())
        if path.startswith("src/") and not known:
            # What a room promises, and what the verbs make of it
            room = f"{UNIT}/dlc/{path.split('/')[2]}"
            known = (room, VERBS) if path.startswith("src/dlc/") and (ROOT / room).is_dir() else (UNIT,)
        if path.startswith(f"{UNIT}/") and not known:
            # A file that is no test belongs to those of its package
            known = (path if Path(path).name.startswith("test_") else "/".join(path.split("/")[:3]),)
        chosen.update(known)
        if path.startswith("src/"):
            chosen.update(OF_ALL_SOURCES)
    return sorted(name for name in chosen if not any(name.startswith(f"{other}/") for other in chosen))


def run_command(shown: Sequence[str], command: Sequence[str]) -> bool:
    """Run a command and tell its seconds; return whether it went well."""
    started = time.monotonic()
    is_well = subprocess.run(command, cwd=ROOT).returncode == 0
    print(f"{'ok' if is_well else 'FAILED'}: {' '.join(shown)} ({time.monotonic() - started:.0f} s)", flush=True)
    return is_well


if __name__ == "__main__":
    sys.exit(main())
