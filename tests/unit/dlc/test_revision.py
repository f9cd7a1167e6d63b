"""The commit and the time of a build, where git or a variable says them and where neither does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.build.buildx import read_revision
from dlc.core.errors import UsageError


def test_a_host_without_git_builds_from_an_unknown_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert read_revision(tmp_path) == ("unknown", 0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert read_revision(tmp_path) == ("unknown", 1790000000)


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "1_0", "9" * 5000])
def test_a_time_that_is_no_number_is_an_error_with_the_variables_name(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError, match=r"SOURCE_DATE_EPOCH=.*: expected seconds since 1970"):
        read_revision(tmp_path)
