"""TorchFix beside our rules, where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc_lint import command
from harness.lint_runs import BREAKS, process

OLD = "import torch\n\nvalues = torch.qr(torch.ones(2, 2))\nother = torch.qr(torch.ones(2, 2))  # noqa: TOR101\n"
# What it prints, by a package of the same name: three ways in which another program can behave.
STAND_INS = {
    "as it prints": "print('train.py:3:10: TOR101 [*] Use of deprecated function\\n--- train.py\\n+++ train.py')",
    "a crash": "raise SystemExit('it broke')",
    "nothing to say": "",
}


def findings(tmp_path: Path, *argv: str, path: Path | None = None) -> tuple[list[tuple[str, int, str]], list[str]]:
    done = process("dlc lint", "train.py", "--json", *argv, cwd=tmp_path, path=path)
    document = json.loads(done.stdout)
    return [(one["tool"], one["line"], one["code"]) for one in document["findings"]], document["notes"]


@pytest.mark.skipif(not command.has_torchfix(), reason="TorchFix is not installed")
def test_its_findings_are_beside_ours_and_noqa_counts_for_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OLD + BREAKS)
    found, notes = findings(tmp_path)
    assert ("TorchFix", 3, "TOR101") in found
    assert ("TorchFix", 4, "TOR101") not in found
    assert "DLC113" in {code for _, _, code in found}
    assert notes == []


@pytest.mark.parametrize(
    ("how", "found", "note"),
    [
        ("as it prints", [("TorchFix", 3, "TOR101")], []),
        ("a crash", [], ["TorchFix failed: it broke"]),
        ("nothing to say", [], []),
    ],
)
def test_what_it_prints_is_read_and_its_failure_is_a_note(
    how: str, found: list[tuple[str, int, str]], note: list[str], tmp_path: Path
) -> None:
    package = tmp_path / "elsewhere/torchfix"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_INS[how] + "\n")
    (tmp_path / "train.py").write_text(OLD)
    assert findings(tmp_path, path=package.parent) == (found, note)


def test_sarif_has_a_run_of_its_own_for_it(tmp_path: Path) -> None:
    package = tmp_path / "elsewhere/torchfix"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_INS["as it prints"] + "\n")
    (tmp_path / "train.py").write_text(OLD)
    runs = json.loads(process("dlc lint", "train.py", "--sarif", cwd=tmp_path, path=package.parent).stdout)["runs"]
    assert [one["tool"]["driver"]["name"] for one in runs] == ["dlc lint", "TorchFix"]
    assert [len(one["results"]) for one in runs] == [0, 1]
