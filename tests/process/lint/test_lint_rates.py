"""benchmarks/lint_rates.py on a clone of its own, and the rates that docs/lint/rates.md states."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dlc_lint.rules import ALL

ROOT = Path(__file__).parents[3]
GROWS = """\
import torch

losses = []
for batch in batches:
    loss = model(batch)
    loss.backward()
    losses.append(loss)
"""


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("lint_rates")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a training script, twice, its test, and files that do not count or are no Python 3."""
    folder = tmp_path / "examples"
    texts = {
        "train.py": GROWS,
        "copy/train.py": GROWS,
        "tests/test_train.py": GROWS + "# a test\n",
        "helper.py": "import torch\n",
        "other.py": "import mxnet\nloss.backward()\n",
        "old.py": "import torch\nprint 1\nloss.backward()\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, timeout=60)
    return folder


def test_scripts_are_read_once_and_judgements_are_counted(
    rates: Any, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judged, found = tmp_path / "judged.tsv", tmp_path / "found.jsonl"
    argv = ["lint_rates.py", "--judged", str(judged), "--findings", str(found), f"a/b={clone}"]
    monkeypatch.setattr("sys.argv", argv)
    assert rates.main() == 0
    assert "2 scripts of 1 repositories, 1 of them are no Python 3" in capsys.readouterr().out
    (one,) = [json.loads(line) for line in found.read_text().splitlines()]
    assert (one["code"], one["line"]) == ("DLC117", 7)
    assert one["path"] in ("a/b/train.py", "a/b/copy/train.py")
    judged.write_text(f"code\tblob\tline\tverdict\tread at\nDLC117\t{one['blob']}\t7\tfalse\t{one['path']}\n")
    assert rates.main() == 0
    assert "| DLC117 | 1 | 1 | 1 | 1 | 100 % |" in capsys.readouterr().out


def test_the_page_has_every_rule_with_at_most_five_in_a_hundred_false_as_they_were_judged() -> None:
    page = (ROOT / "docs/lint/rates.md").read_text()
    rows = {row[0]: row[1:] for row in re.findall(r"^\| (DLC\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", page, re.M)}
    assert set(rows) == {rule.code for rule in ALL}
    lines = [line.split("\t") for line in (ROOT / "benchmarks/lint_judged.tsv").read_text().splitlines()[1:]]
    verdicts = Counter((code, verdict) for code, _, _, verdict, _ in lines)
    assert {verdict for _, verdict in verdicts} <= {"right", "false"}
    for code, (findings, _, judged, false) in rows.items():
        assert int(judged) == verdicts[code, "right"] + verdicts[code, "false"], code
        assert int(false) == verdicts[code, "false"], code
        assert int(judged) <= int(findings)
        assert int(false) <= 0.05 * int(judged), code
