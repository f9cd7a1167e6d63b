"""scripts/check.py: which tests and which packages a change is about."""

from __future__ import annotations

import re
from pathlib import Path

import check
import pytest

ROOT = Path(__file__).parents[3]
RULES = [f"tests/unit/house/test_{name}.py" for name in ("circles", "rooms", "style")]
LINT = (ROOT / "scripts/lint.sh").read_text()


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ({"src/dlc/core/text.py"}, ["tests/unit/dlc", "tests/unit/house"]),
        ({"src/dlc/image_build/wheels.py"}, ["tests/unit/dlc/cli", "tests/unit/dlc/image_build", *RULES]),
        (
            {"src/dlc_runtime/profile/meter.py"},
            [*RULES, "tests/unit/runtime/profile"],
        ),
        ({"src/dlc_of_tomorrow/new.py"}, ["tests/unit"]),
        ({"tests/unit/lint/test_lint_fix.py"}, ["tests/unit/lint/test_lint_fix.py"]),
        ({"tests/unit/lint/mistakes/DLC101.py", "tests/unit/lint/conftest.py"}, ["tests/unit/lint"]),
        ({"tests/process/dlc/test_push.py", "benchmarks/build.py"}, []),
        (set(), []),
    ],
)
def test_tests_of_a_change(changed: set[str], tests: list[str]) -> None:
    assert check.choose_tests(changed) == tests


def test_every_chosen_test_is_there() -> None:
    named = {name for tests in check.TESTS.values() for name in tests} | {*check.OF_ALL_SOURCES}
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_packages_of_a_change_are_checked_as_the_linters_do() -> None:
    assert check.choose_mypy({"src/dlc/core/text.py", "docs/build.md"}, LINT) == [["mypy", "src/dlc"]]
    assert check.choose_mypy({"tests/conftest.py"}, LINT) == []
    [command] = check.choose_mypy({"src/entrypoint/launcher.py"}, LINT)
    assert command[-1] == "src/entrypoint"


def test_the_hooks_of_a_commit_are_commands_of_the_linters() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    commands = [found.removesuffix(" --force-exclude") for found in re.findall(r"entry: \.venv/bin/(.*)", hooks)]
    assert len(commands) == hooks.count("- id:")
    assert [command for command in commands if command not in LINT] == ["python scripts/check.py"]


def test_make_runs_the_tests_of_processes_and_images_with_the_dlc_that_ships() -> None:
    """And only those of `tests/unit` with the checkout's own."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    runs = [line for line in lines if "$(PYTEST)" in line or "$(INSTALLED)" in line]
    assert [line for line in runs if ("$(INSTALLED)" in line) == ("tests/unit" in line)] == []
    assert len([line for line in runs if "$(INSTALLED)" in line]) == 3
    assert "INSTALLED := .venv/bin/python tests/harness/installed.py $(OPTIONS)" in lines
