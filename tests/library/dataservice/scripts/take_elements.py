"""Takes the numbers 0 to COUNT-1, made by tf.data.service, for two epochs; writes each epoch as a line of JSON.

In the first epoch it waits after 20 elements until the file GO is there.
"""

import json
import sys
import time
from pathlib import Path

import tensorflow as tf

from dlc_runtime.dataservice.tensorflow import distribute

out, count, options = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
go = out.with_suffix(".go")


def padded(number):
    """Large enough that a worker cannot make the epoch ahead of its consumer."""
    return number, tf.zeros([50_000], tf.float32)


numbers = tf.data.Dataset.range(count)
buffer = options.pop("shuffle", 0)
dataset = distribute((numbers.shuffle(buffer) if buffer else numbers).map(padded), **options)
for epoch in range(2):
    taken = []
    for number, _ in dataset:
        taken.append(int(number))
        if len(taken) == 20 and epoch == 0:
            out.with_suffix(".waits").touch()
            while not go.exists():
                time.sleep(0.02)
    with out.open("a") as file:
        file.write(json.dumps(taken) + "\n")
