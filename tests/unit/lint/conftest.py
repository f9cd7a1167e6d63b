"""The linter's command in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lint_runs import Here


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path, capsys)
