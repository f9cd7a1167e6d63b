"""Fits y = 2x + 1 with Horovod under PyTorch or TensorFlow and sums over all ranks; writes what each rank saw."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np

STEPS, LEARNING_RATE = 60, 0.3


def batches(rank: int) -> np.ndarray:
    """Inputs of every step: [STEPS, 32], other ones on every rank."""
    return np.random.default_rng(rank).uniform(-1, 1, [STEPS, 32]).astype(np.float32)


def fit_with_torch() -> dict[str, object]:
    """Sum and losses; the gradients are averaged over all ranks by Horovod's optimizer."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum).item()
    torch.manual_seed(7)  # two jobs can be compared
    model = torch.nn.Linear(1, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    plain = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    losses = []
    for batch in torch.from_numpy(batches(hvd.rank())).unsqueeze(2):
        optimizer.zero_grad()
        loss = ((model(batch) - (2 * batch + 1)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = [parameter.item() for parameter in model.parameters()]
    return {"rank": hvd.rank(), "size": hvd.size(), "sum": total, "losses": losses, "weights": weights}


def fit_with_tensorflow() -> dict[str, object]:
    """The same with Horovod's gradient tape."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = float(hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum))
    slope, offset = tf.Variable(0.5 * hvd.rank()), tf.Variable(0.0)
    hvd.broadcast_variables([slope, offset], root_rank=0)
    losses = []
    for batch in batches(hvd.rank()):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * batch + offset - (2 * batch + 1)) ** 2)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, [slope, offset])
        for variable, gradient in zip([slope, offset], gradients):
            variable.assign_sub(LEARNING_RATE * gradient)
        losses.append(float(loss))
    weights = [float(slope), float(offset)]
    return {"rank": hvd.rank(), "size": hvd.size(), "sum": total, "losses": losses, "weights": weights}


seen = fit_with_torch() if importlib.util.find_spec("torch") else fit_with_tensorflow()
seen["host"] = os.environ["SM_CURRENT_HOST"]
Path(os.environ["SM_OUTPUT_DATA_DIR"], f"metrics-rank{seen['rank']}.json").write_text(json.dumps(seen))
print(f"rank {seen['rank']} fitted {seen['weights']}")
