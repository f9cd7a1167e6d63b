"""What dlc itself needs: its wheel's ranges fit the locks, its uv is the one of content keys, each range has an end."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dlc.buildspec.lockfile import parse_entries, parse_versions
from dlc.buildspec.tool_pin import NEEDS
from dlc.buildspec.variant import normal_name
from dlc.core.checkout import find_root, read_tree
from dlc.plan.targets import read_uv_version

ROOT = find_root(Path(__file__).parent)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [word for words in PROJECT["optional-dependencies"].values() for word in words]
RANGES = [Requirement(word) for word in [*PROJECT["dependencies"], *EXTRAS]]
# pyproject.toml says why.
WITHOUT_END = {"pip"}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", NEEDS])
def test_each_range_of_the_wheel_fits_the_locks_version(name: str) -> None:
    locked = parse_versions((ROOT / name).read_text())
    assert [str(each) for each in RANGES if locked[normal_name(each.name)] not in each.specifier] == []


def test_the_wheel_takes_the_uv_that_content_keys_have_and_no_other() -> None:
    [uv] = [each for each in RANGES if each.name == "uv"]
    assert str(uv.specifier) == f"=={read_uv_version(read_tree(ROOT))}"


def test_each_range_ends_before_a_version_that_may_break_dlc() -> None:
    endless = {each.name for each in RANGES if not any(part.operator in ("<", "==") for part in each.specifier)}
    assert endless == WITHOUT_END


def test_what_an_installed_dlc_needs_is_of_requirements_lock_without_what_only_its_build_needs() -> None:
    texts = ((ROOT / name).read_text() for name in ("requirements.lock", NEEDS))
    whole, run = (parse_entries(re.sub(r"^([a-z0-9-]+)\[[a-z]+\]", r"\1", text, flags=re.MULTILINE)) for text in texts)
    assert run.items() <= whole.items(), "scripts/lock-tool.sh writes both"
    assert {name for name, _ in whole.keys() - run.keys()} >= {"hatchling", "editables"}
    assert {normal_name(each.name) for each in RANGES} <= {name for name, _ in run}


def test_the_lock_of_what_dlc_needs_keeps_extras_which_pip_23_asks_for() -> None:
    """Without them pip 23, as Debian 12 has it, ends with: all requirements must have their versions pinned."""
    assert "\npydantic[email]==" in (ROOT / NEEDS).read_text()
