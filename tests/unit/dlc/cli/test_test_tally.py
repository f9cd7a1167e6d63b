"""`dlc test` counts the tests that end while it runs, and prints those that fail; what it installs for them."""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

from dlc.cli.test import PYTEST, Tally
from dlc.core.checkout import find_root

# As pytest prints it with two workers and --verbose.
PRINTED = """\
created: 2/2 workers
scheduling tests via LoadFileScheduling

test_a.py::test_ok[1]\x20
[gw1] [ 20%] PASSED test_a.py::test_ok[1]\x20
test_a.py::test_ok[x y]\x20
[gw1] [ 60%] PASSED test_a.py::test_ok[x y]\x20
[gw1] [ 80%] SKIPPED test_a.py::test_skip\x20
[gw0] [100%] FAILED test_a.py::test_bad\x20

=================================== FAILURES ===================================
E   assert 0
==================== 1 failed, 3 passed, 1 skipped in 7.90s ====================
"""


def test_every_test_that_ends_is_counted_and_those_that_fail_are_printed() -> None:
    said: list[str] = []
    shown: list[str] = []
    tally = Tally(said.append, shown.append)
    for line in PRINTED.splitlines():
        tally.take(line)
    assert said[0] == "20 % of the tests: 1 passed"
    assert said[-1] == "100 % of the tests: 1 failed, 2 passed, 1 skipped"
    assert [line for line in shown if line] == [
        "created: 2/2 workers",
        "FAILED test_a.py::test_bad",
        *PRINTED.splitlines()[-3:],
    ]


def test_an_installed_dlc_gets_all_that_the_container_tests_import() -> None:
    """Their other modules are Python's own, dlc's, and of the folders that the wheel has."""
    root = find_root(Path(__file__).parent)
    trees = [ast.parse(path.read_text()) for path in (root / "tests/container").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    known = packages_distributions()
    strangers = {known[name][0].lower() for name in found if name in known and not name.startswith("dlc")}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = {Requirement(text).name.lower() for text in project["dependencies"]}
    assert "pytest" in strangers
    assert strangers - needed <= set(PYTEST)
