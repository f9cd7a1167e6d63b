"""What Keras's `fit` counts as a step, and how many it says there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

SOURCES = Path(__file__).parents[3] / "src"
FIT = """
import os
import dlc_runtime.steps.import_hook
import numpy as np
import KERAS as keras
from launch.supervision.progress import read_first

model = keras.Sequential([keras.layers.Dense(1)])
options = {"steps_per_execution": 3} if PER > 1 else {}
model.compile("sgd", "mse", **options)
x = np.ones((64, 3), "float32")
model.fit(x, x[:, :1], batch_size=8, epochs=EPOCHS, initial_epoch=FIRST, verbose=0, validation_data=(x, x[:, :1]))
found = read_first(os.environ["DLC_STEPS_DIR"])
print(found.steps, found.step, found.total_steps, found.epoch, found.epoch_batch, found.epoch_batches)
"""


def fit(folder: Path, keras: str, epochs: int = 3, first: int = 0, per: int = 1) -> list[int]:
    code = FIT.replace("KERAS", keras).replace("EPOCHS", str(epochs)).replace("FIRST", str(first))
    variables = {"DLC_STEPS_DIR": str(folder), "PYTHONPATH": f"{SOURCES}:{SOURCES / 'entrypoint'}"}
    argv = [sys.executable, "-c", code.replace("PER", str(per))]
    done = subprocess.run(argv, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not counted" not in done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.fixture(params=["keras", "tf_keras", "tensorflow.keras"])
def keras(request: pytest.FixtureRequest) -> str:
    if request.param == "tf_keras":
        pytest.importorskip("tf_keras")
    return str(request.param)


def test_a_step_is_a_batch_of_the_training(keras: str, tmp_path: Path) -> None:
    assert fit(tmp_path, keras) == [24, 24, 24, 3, 8, 8]


def test_a_fit_that_goes_on_counts_from_its_first_epoch(keras: str, tmp_path: Path) -> None:
    assert fit(tmp_path, keras, first=2) == [8, 24, 24, 3, 8, 8]


def test_batches_that_are_executed_together_are_counted_all(keras: str, tmp_path: Path) -> None:
    assert fit(tmp_path, keras, per=3) == [24, 24, 24, 3, 8, 8]
