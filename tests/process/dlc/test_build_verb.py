"""`dlc build`: what it says before it has an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.cli import run
from dlc.core.checkout import find_root
from dlc.core.errors import EngineError
from harness.specimen import PYTORCH, PYTORCH_PATH, TORCH_ID, changed, specimen, write_tree


def test_an_image_past_its_end_of_patch_is_said_on_stderr_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = PYTORCH.replace("job: training", 'job: training\neop: "2020-01-31"')
    write_tree(changed(specimen(), PYTORCH_PATH, spec), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineError):
        run(["build", TORCH_ID, "--json"])
    said = capsys.readouterr()
    assert f"dlc: warning: {TORCH_ID}: end of patch was 2020-01-31" in said.err
    assert said.out == ""


def test_a_dry_run_says_which_images_would_be_built_and_why_and_builds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No client is on PATH, so there is no engine: none is installed or started."""
    monkeypatch.chdir(find_root(Path(__file__)))
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    assert run(["build", "pytorch-2.13-*", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("build  pytorch-2.13-training-cpu-py311  ")
    assert "1 of 1 images would be built" in said.out
    assert "a build would start one" in said.err
    assert run(["build", "pytorch-2.13-*", "--dry-run", "--json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["decisions"]
    assert all(decision["build"] and decision["why"] for decision in decisions)
    assert list(tmp_path.iterdir()) == []
