"""For tests: a training host takes numbered elements from tf.data.service for two epochs and writes which came."""

import json
import os
from pathlib import Path

import tensorflow as tf

from dlc_runtime.dataservice.tensorflow import distribute

SAMPLES, EPOCHS = 2000, 2


def prepared(number):
    return number, tf.random.uniform([28, 28]) + tf.cast(number, tf.float32)


dataset = distribute(tf.data.Dataset.range(SAMPLES).map(prepared).batch(50))
epochs = []
for _ in range(EPOCHS):
    numbers = []
    for ids, images in dataset:
        assert images.shape == (50, 28, 28), images.shape
        numbers += ids.numpy().tolist()
    epochs.append(numbers)
print("both epochs are here", flush=True)
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
output.mkdir(parents=True, exist_ok=True)
(output / "metrics-rank0.json").write_text(json.dumps({"rank": 0, "epochs": epochs}))
