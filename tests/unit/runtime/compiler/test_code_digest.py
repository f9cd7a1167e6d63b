"""The digest of a model's code: another one if what its forward runs has changed, the same if nothing of it has."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from dlc_runtime.compiler.cache.code_digest import digest_code

SCRIPT = """
    import functools
    import helpers

    SCALE = 2.0
    LEARNING_RATE = 0.1
    SIZES = (4, 8)

    def decorate(function):
        @functools.wraps(function)
        def run(*arguments):
            return function(*arguments)
        return run

    def twice(value):
        # how it is done
        return value + value

    class Base:
        def activate(self, value):
            return max(value, 0)

    class Net(Base):
        def __init__(self):
            self.width = 8

        @decorate
        def forward(self, value):
            inner = lambda x: x * SCALE
            return helpers.shift(self.activate(twice(inner(value)))) + SIZES[0]

    def train():
        return LEARNING_RATE
"""
HELPERS = """
    def shift(value, by=1):
        return value + by

    def unused():
        return 1
"""


def digest_of(folder: Path, script: str, helpers: str = HELPERS) -> str:
    """Run the script as a process does, and return the digest of its class Net."""
    loaded = {}
    for name, text in (("helpers", helpers), ("script", script)):
        path = folder / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        loaded[name] = module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    try:
        return digest_code([loaded["script"].Net])
    finally:
        del sys.modules["script"], sys.modules["helpers"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value + value", "value + value + 1"),
        ("max(value, 0)", "max(value, 1)"),
        ("x * SCALE", "x + SCALE"),
        ("SCALE = 2.0", "SCALE = 3.0"),
        ("SIZES = (4, 8)", "SIZES = (5, 8)"),
        ("self.width = 8", "self.width = 9"),
        ("return function(*arguments)", "return -function(*arguments)"),
        ("class Net(Base):", "class Net(Base):\n        depth = 3\n"),
    ],
)
def test_a_changed_line_of_what_the_forward_runs_is_another_code(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCRIPT
    assert digest_of(tmp_path, SCRIPT) != digest_of(tmp_path, SCRIPT.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [("value + by", "value - by"), ("by=1", "by=2")])
def test_a_changed_line_of_a_module_that_the_forward_calls_is_another_code(tmp_path: Path, old: str, new: str) -> None:
    assert digest_of(tmp_path, SCRIPT) != digest_of(tmp_path, SCRIPT, HELPERS.replace(old, new))


def test_lines_that_moved_other_comments_and_what_the_model_does_not_run_are_the_same_code(tmp_path: Path) -> None:
    known = digest_of(tmp_path, SCRIPT)
    other = "\n\n" + SCRIPT.replace("how it is done", "in a hurry").replace("LEARNING_RATE = 0.1", "LEARNING_RATE = 1")
    (tmp_path / "elsewhere").mkdir()
    assert digest_of(tmp_path / "elsewhere", other, HELPERS.replace("return 1", "return 2")) == known


def test_objects_that_make_what_they_are_asked_for_are_left_alone(tmp_path: Path) -> None:
    script = """
        class Namespace:
            def __getattr__(self, name):
                raise SystemExit(f"asked for {name}")

        ops = Namespace()

        class Net:
            def forward(self, value):
                return ops.run(value)
    """
    assert digest_of(tmp_path, script)
