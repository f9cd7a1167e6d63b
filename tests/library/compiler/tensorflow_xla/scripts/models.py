"""What the scripts share: a small Keras model of either Keras, its data, and where losses and weights go."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

tf.random.set_seed(7)
tf.config.threading.set_intra_op_parallelism_threads(1)


def keras_of(name):
    """`keras`, `tf_keras`, or `tf.keras`: what TensorFlow itself holds."""
    keras = tf.keras if name == "tf.keras" else importlib.import_module(name)
    keras.utils.set_random_seed(7)
    return keras


def data(size, features=8, seed=3):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((size, features)).astype("float32")
    return x, (x[:, :2] * 0.5 + 0.1).astype("float32")


def small_model(keras):
    return keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, activation="gelu"), keras.layers.Dense(2)]
    )


def collector(keras, losses):
    class Collect(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(float(logs["loss"]))

    return Collect()


def finish(losses, *weights, **more):
    """Writes what a test compares: losses, lists of weights, and whatever else the script found."""
    named = [{str(place): np.asarray(value).tolist() for place, value in enumerate(part)} for part in weights]
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
    path = Path(os.environ["RESULTS"]) / f"{task['index']}.json"
    path.write_text(json.dumps({"losses": losses, "weights": named, **more}))
