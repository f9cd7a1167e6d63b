"""The limit of the container in a profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc_runtime.profile.memory import container_limit


@pytest.mark.parametrize(
    ("path", "text", "limit"),
    [
        ("memory.max", "1048576\n", 1048576),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "1048576\n", 1048576),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
    ],
)
def test_the_containers_limit_is_read_in_both_versions(path: str, text: str, limit: int | None, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert container_limit(str(tmp_path)) == limit
    assert container_limit(str(tmp_path / "none")) is None
