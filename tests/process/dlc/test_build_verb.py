"""`dlc build`: what it says before it has an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.cli import run
from dlc.core.errors import EngineError
from harness.specimen import PYTORCH, PYTORCH_PATH, TORCH_ID, changed, specimen


def test_an_image_past_its_end_of_patch_is_said_on_stderr_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = PYTORCH.replace("job: training", 'job: training\neop: "2020-01-31"')
    for path, file in changed(specimen(), PYTORCH_PATH, spec).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(file.data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineError):
        run(["build", TORCH_ID, "--json"])
    said = capsys.readouterr()
    assert f"dlc: warning: {TORCH_ID}: end of patch was 2020-01-31" in said.err
    assert said.out == ""
