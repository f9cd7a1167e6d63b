"""For tests: Keras `fit` over data of its own. It knows nothing of a compiler.

What it saw is in metrics-rank0.json.
"""

import json
import os
from pathlib import Path

import numpy
import tensorflow

tensorflow.random.set_seed(7)  # with the seeds of the layers: the same weights in each job
values = numpy.random.default_rng(7).normal(size=(256, 20)).astype("float32")
labels = (values.sum(axis=1) > 0).astype("int32")
model = tensorflow.keras.Sequential(
    [
        tensorflow.keras.layers.Dense(
            32, activation="relu", input_shape=(20,), kernel_initializer=tensorflow.keras.initializers.GlorotUniform(1)
        ),
        tensorflow.keras.layers.Dense(2, kernel_initializer=tensorflow.keras.initializers.GlorotUniform(2)),
    ]
)
model.compile(
    optimizer=tensorflow.keras.optimizers.SGD(0.1),
    loss=tensorflow.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)


class Losses(tensorflow.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(logs["loss"]))


losses = Losses()
model.fit(values, labels, batch_size=32, epochs=4, shuffle=False, verbose=0, callbacks=[losses])
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
output.mkdir(parents=True, exist_ok=True)
weights = [float(value) for array in model.get_weights() for value in array.flatten()[:50]]
(output / "metrics-rank0.json").write_text(json.dumps({"rank": 0, "losses": losses.seen, "weights": weights}))
