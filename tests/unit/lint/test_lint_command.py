"""`dlc lint` and `python -m dlc_lint`: what they print, and how they end."""

from __future__ import annotations

import json

import pytest

from dlc_lint import command
from harness.lint_runs import BREAKS, Here

CLEAN = "import torch\n\nprint(torch.__version__)\n"
BOTH = pytest.mark.parametrize("module", ["dlc lint", "dlc_lint"])


@BOTH
def test_nothing_found_is_0_and_something_found_is_1(module: str, here: Here) -> None:
    (here.folder / "clean.py").write_text(CLEAN)
    (here.folder / "train.py").write_text(BREAKS)
    clean = here(module, "clean.py")
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, "nothing found in 1 script\n", "")
    found = here(module, "clean.py", "train.py", "--no-torchfix")
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("train.py:10:9: DLC113 print in the model breaks its graph here")
    assert "1 finding in 2 scripts" in found.stdout


BAD = {
    "missing.py": (None, "No such file or directory"),
    "folder": ("", "a folder without Python scripts"),
    "latin.py": (b"# one\nname = '\xe9'\n", "latin.py:2: byte 0xe9 is not UTF-8"),
    "unknown.py": (b"# coding: klingon\nx = 1\n", "unknown.py:1: unknown encoding"),
    "no_text.py": (b"# coding: rot13\nx = 1\n", "no_text.py:1: 'rot13' is not a text encoding"),
    "undefined.py": (b"# coding: undefined\nx = 1\n", "undefined.py:1: "),
    "ascii.py": (b"# coding: ascii\n\nname = '\xe9'\n", "ascii.py:3: byte 0xe9 is not ascii"),
    "syntax.py": (b"x = 1\n\ndef f(:\n    pass\n", "syntax.py:3: syntax error"),
    "python2.py": (b"import torch\nprint 'loss'\n", "python2.py:2: syntax error"),
    "null.py": (b"x = 1\ny = '\0'\n", "null.py:2: a NUL byte"),
    "tabs.py": (b"if 1:\n\tx = 1\n        y = 2\n", "tabs.py:3: syntax error"),
    "notebook.ipynb": (b'{"cells": [], "nbformat": 4}\n', "notebook.ipynb: a notebook: expected a Python script"),
    "model.pt": (b"\x80\x02}q\x00" * 1000, "NUL byte"),
}


@BOTH
@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_script_is_one_error_with_its_own_code(module: str, name: str, here: Here) -> None:
    content, words = BAD[name]
    if name == "folder":
        (here.folder / name).mkdir()
    elif content is not None:
        (here.folder / name).write_bytes(content)
    (here.folder / "train.py").write_text(BREAKS)
    done = here(module, name, "train.py", "--no-torchfix")
    assert done.returncode == 51, done.stderr
    assert words in done.stderr.partition("\n")[0]
    assert done.stderr.count("remedy: ") == 1
    assert "Traceback" not in done.stderr
    assert "train.py:10:9: DLC113" in done.stdout  # the others are checked all the same


def test_each_of_several_bad_files_has_its_error(here: Here) -> None:
    done = here("dlc lint", "one.py", "two.py", "one.py")
    assert done.returncode == 51
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines() if line.startswith("dlc: ")] == [
        "one.py",
        "two.py",
    ]


def test_json_has_the_keys_that_its_version_promises(here: Here) -> None:
    (here.folder / "train.py").write_text(BREAKS)
    done = here("dlc lint", "train.py", "missing.py", "--json", "--no-torchfix")
    assert done.returncode == 51
    document = json.loads(done.stdout)
    message = document["findings"][0].pop("message")
    assert "print in the model" in message
    assert document == {
        "version": 1,
        "scripts": 1,
        "findings": [
            {
                "path": "train.py", "line": 10, "column": 9, "end_line": 10, "end_column": 17, "code": "DLC113",
                "fixable": False, "tool": "dlc", "page": "docs/lint/DLC113.md",
            }
        ],
        "fixed": [],
        "errors": [
            {
                "path": "missing.py", "line": None, "remedy": "check the path",
                "message": "No such file or directory: expected a Python script",
            }
        ],
        "notes": [],
    }  # fmt: skip


def test_json_of_two_runs_is_the_same_text(here: Here) -> None:
    (here.folder / "train.py").write_text(BREAKS + BREAKS.replace("Net", "Other"))
    outputs = {here("dlc lint", "train.py", "--json", "--no-torchfix").stdout for _ in range(2)}
    assert len(outputs) == 1


def test_only_the_rules_of_the_framework_that_is_asked_for(here: Here) -> None:
    both = BREAKS + "\nimport tensorflow as tf\ntf.config.run_functions_eagerly(True)\n"
    (here.folder / "train.py").write_text(both)
    codes = {
        framework: {one["code"] for one in json.loads(
            here("dlc lint", "train.py", "--json", "--no-torchfix", "--framework", framework).stdout
        )["findings"]}
        for framework in ("pytorch", "tensorflow")
    }  # fmt: skip
    assert codes == {"pytorch": {"DLC113"}, "tensorflow": {"DLC202"}}


def test_the_compiler_of_the_job_decides_what_static_shapes_cost(here: Here) -> None:
    (here.folder / "train.py").write_text(
        "from torch.utils.data import DataLoader\nfrom data import train\n\n"
        "loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2)\n"
    )
    assert here("dlc lint", "train.py", "--no-torchfix").returncode == 0
    assert "DLC102" in here("dlc lint", "train.py", "--no-torchfix", "--compiler", "xla").stdout
    assert here("dlc lint", "train.py", "--no-torchfix", "--compiler", "inductor").returncode == 0


def test_a_script_is_read_and_never_run(here: Here) -> None:
    (here.folder / "train.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    assert here("dlc lint", "train.py").returncode == 0
    assert not (here.folder / "ran").exists()


@pytest.mark.parametrize("argv", [["--no-torchfix"], ["--framework", "tensorflow"]])
def test_torchfix_is_not_asked_where_nobody_wants_it(
    argv: list[str], here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "has_torchfix", lambda: pytest.fail("asked"))
    (here.folder / "train.py").write_text(CLEAN)
    assert here("dlc lint", "train.py", *argv).returncode == 0
