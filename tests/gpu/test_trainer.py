"""The Trainer of Hugging Face in a job of the launcher: on a GPU, also where torch_xla is there, which it prefers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

LAUNCHER = Path("/opt/dlc/entrypoint/launcher.py")
ROOT = Path(__file__).parents[2]


def launcher() -> str:
    """The image's launcher, or that of this checkout."""
    for path in (LAUNCHER, ROOT / "src/entrypoint/launcher.py"):
        if path.exists():
            return str(path)
    pytest.skip("neither an image nor a checkout: there is no launcher")


@pytest.fixture(scope="module")
def answer(torch: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What programs/trainer_device.py found, started as `train` starts a job on one host."""
    for package in ("transformers", "accelerate"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    base = tmp_path_factory.mktemp("ml")
    (base / "input/config").mkdir(parents=True)
    (base / "code").mkdir()
    program = Path(__file__).parent / "programs" / "trainer_device.py"
    (base / "code" / program.name).write_text(program.read_text())
    parameters = {"sagemaker_program": json.dumps(program.name), "steps": "4"}
    (base / "input/config/hyperparameters.json").write_text(json.dumps(parameters))
    environment = {**os.environ, "SAGEMAKER_BASE_DIR": str(base), "DLC_VENV": sys.prefix}
    environment.pop("USE_TORCH_XLA", None)
    argv = [sys.executable, "-I", "-S", launcher(), "train"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, object] = json.loads((base / "output/data/found.json").read_text())
    return found


def test_trainer_trains_on_the_gpu(answer: dict[str, object]) -> None:
    assert str(answer["device"]).partition(":")[0] == "cuda"
    assert answer["weights_on"] == ["cuda"]
    assert answer["steps"] == 4


def test_accelerate_prepares_for_the_gpu(answer: dict[str, object]) -> None:
    assert str(answer["accelerator"]).partition(":")[0] == "cuda"
