"""docker/scripts/finish/mend.py: a line of a released package is replaced, and one that is not there is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dlc.core.checkout import find_root

MEND = find_root(Path(__file__).parent) / "docker/scripts/finish/mend.py"
TORCHRUN = "for s in Std:\n    if s == v:\n"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [(TORCHRUN, 0, TORCHRUN.replace("in Std:", "in list(Std):")), ("something new\n", 1, "something new\n")],
)
def test_the_named_words_are_replaced_or_missed(text: str, code: int, expected: str, tmp_path: Path) -> None:
    package = tmp_path / "api.py"
    package.write_text(text)
    script = tmp_path / "mend.py"
    script.write_text(MEND.read_text())
    script.with_name("mend.txt").write_text(f"# a comment\n\n{tmp_path}/*api.py => in Std: => in list(Std):\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, package.read_text()) == (code, expected), done.stderr
    assert ("expected 'in Std:'" in done.stderr) == bool(code)
