"""The linter's command as a process: sources that no person writes, and a Python without libcst."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lint_runs import process

CLEAN = "import torch\n\nprint(torch.__version__)\n"
BOTH = pytest.mark.parametrize("module", ["dlc lint", "dlc_lint"])
# Each of them would end the process in libcst's parser or be too deep for Python.
DEEP = {
    "brackets.py": "(" * 5000 + ")" * 5000,
    "sums.py": "+".join(["1"] * 5000),
    "signs.py": "-" * 5000 + "1",
    "nots.py": "not " * 5000 + "1",
    "names.py": "a" + ".b" * 5000,
    "calls.py": "a" + "()" * 5000,
    "powers.py": "**".join(["2"] * 5000),
    "choices.py": "1 if a else " * 5000 + "2",
    "lambdas.py": "lambda: " * 5000 + "2",
    "strings.py": "'a' " * 5000,
    "formatted.py": "f'a' " * 5000,
    "fields.py": 'f"{' + "(" * 5000 + ")" * 5000 + '}"',
    "elifs.py": "1\nif x:\n    pass\n" + "elif x:\n    pass\n" * 5000,
    "both.py": "f(1 + " * 1000 + "1" + ")" * 1000,
}


def test_what_no_person_writes_is_an_error_and_no_crash(tmp_path: Path) -> None:
    for name, expression in DEEP.items():
        (tmp_path / name).write_text(f"x = {expression}\n")
    done = process("dlc_lint", *DEEP, cwd=tmp_path)
    assert done.returncode == 51, done.stderr[-2000:]
    errors = [line for line in done.stderr.splitlines() if line.startswith("dlc_lint: ")]
    assert [line.split(":")[1].strip() for line in errors] == list(DEEP)
    # From Python 3.12 on Python's own tokenizer refuses the 200th bracket first.
    assert all("too deep" in line or "too many nested parentheses" in line for line in errors)


@BOTH
def test_without_libcst_it_is_one_error_that_says_what_to_install(module: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLEAN)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['libcst'] = None\n")
    done = process(module, "train.py", cwd=tmp_path, path=tmp_path)
    assert done.returncode == 21
    assert "libcst" in done.stderr
    assert "Traceback" not in done.stderr
