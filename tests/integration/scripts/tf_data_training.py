"""For tests: a training host takes numbered elements from tf.data.service for two epochs and writes which came.

With --wait it stops in the first epoch until the file `go` is beside its output. On data hosts it serves, where no
program of the group does.
"""

import argparse
import json
import logging
import os
import time
from pathlib import Path

import tensorflow as tf

import dlc_runtime
from dlc_runtime.dataservice.tensorflow import distribute, serve

SAMPLES, EPOCHS = 2000, 2
parser = argparse.ArgumentParser()
parser.add_argument("--wait", type=int, default=0)
options = parser.parse_args()
if not dlc_runtime.cluster().is_training:
    logging.basicConfig(level=logging.INFO)
    serve()
    raise SystemExit
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
output.mkdir(parents=True, exist_ok=True)


def prepared(number):
    return number, tf.random.uniform([100, 100]) + tf.cast(number, tf.float32)


dataset = distribute(tf.data.Dataset.range(SAMPLES).map(prepared).batch(10))
epochs = []
for epoch in range(EPOCHS):
    numbers = []
    for step, (ids, images) in enumerate(dataset):
        assert images.shape[1:] == (100, 100), images.shape
        numbers += ids.numpy().tolist()
        if options.wait and step == 10 and not epoch:
            print("ten batches are here", flush=True)
            while not (output / "go").exists():
                time.sleep(0.05)
    epochs.append(numbers)
(output / "metrics-rank0.json").write_text(json.dumps({"rank": 0, "epochs": epochs}))
