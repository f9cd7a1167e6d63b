"""The warm-up sets the learning rate of PyTorch's and Keras's optimizers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[4] / "src"
BOUND_SECONDS = 600.0  # only a hang takes that long
TORCH = """
import json, torch
from dlc_runtime.scaling import Warmup
def made():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.8)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, Warmup(4, start=0.125))
def train(optimizer, scheduler, steps):
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
rates = []
optimizer, scheduler = made()
train(optimizer, scheduler, 3)
saved = optimizer.state_dict(), scheduler.state_dict()
again, schedule = made()
again.load_state_dict(saved[0])
schedule.load_state_dict(saved[1])
train(again, schedule, 3)
print(json.dumps(rates))
"""
KERAS = """
import json, tensorflow as tf
from dlc_runtime.scaling import keras_warmup
schedule = keras_warmup(0.8, 4, start=0.125)
schedule = type(schedule).from_config(schedule.get_config())
layer = tf.Variable(0.0)
optimizer = tf.keras.optimizers.SGD(schedule)
rates = []
for _ in range(6):
    before = float(layer)
    optimizer.apply_gradients([(tf.constant(1.0), layer)])
    rates.append(before - float(layer))
assert float(keras_warmup(0.8, 0)(0)) == tf.constant(0.8)
print(json.dumps(rates))
"""
EXPECTED = [0.1, 0.275, 0.45, 0.625, 0.8, 0.8]


@pytest.mark.parametrize(
    ("program", "package", "variable"),
    [(TORCH, "torch", "DLC_TEST_TORCH_PYTHON"), (KERAS, "tensorflow", "DLC_TEST_TENSORFLOW_PYTHON")],
    ids=["torch, over a checkpoint", "keras"],
)
def test_the_optimizer_steps_with_the_rate_of_the_warm_up(program: str, package: str, variable: str) -> None:
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python with {package}; {variable} names one")
    done = subprocess.run(
        [python, "-c", program], env={**os.environ, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True,
        timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx(EXPECTED, abs=1e-6)
