"""The warm-up sets the learning rate of PyTorch's and Keras's optimizers; the largest batch of a step of PyTorch."""

from __future__ import annotations

import pytest
from framework_runs import answer_of

MEGABYTE = 1 << 20
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
    ("program", "package"), [(TORCH, "torch"), (KERAS, "tensorflow")], ids=["torch, over a checkpoint", "keras"]
)
def test_the_optimizer_steps_with_the_rate_of_the_warm_up(program: str, package: str) -> None:
    assert answer_of(program, package) == pytest.approx(EXPECTED, abs=1e-6)


def test_a_torch_step_fits_where_the_limit_says() -> None:
    program = (
        "from dlc_runtime.scaling import largest_batch\n"
        "found = largest_batch('trial_functions:trains', first=64, memory=2 << 30, steps=2)\n"
        "import json; print(json.dumps([found.batch, found.trials[found.batch]]))"
    )
    batch, trial = answer_of(program, "torch")
    assert 200 <= batch <= 1900
    assert batch * MEGABYTE <= trial["host"]["peak"] <= 0.9 * (2 << 30)
