"""Keras `fit` under MultiWorkerMirroredStrategy, which reads TF_CONFIG; the chief alone keeps the model."""

import argparse
import json
import os

import numpy as np
import report
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--per-worker-batch-size", type=int, default=32)
parser.add_argument("--model_dir", type=str)
args, _ = parser.parse_known_args()

# must be made before anything else of TensorFlow runs
communication = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
tf.keras.utils.set_random_seed(7)
task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "worker", "index": 0})
is_chief = task["type"] == "chief" or task["index"] == 0

digits = load_digits()
images = (digits["images"] / 16).astype(np.float32)[..., np.newaxis]
labels = digits["target"].astype(np.int64)
batch = args.per_worker_batch_size * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500])).shuffle(1500, seed=3).repeat().batch(batch)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ])  # fmt: skip
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(learning_rate=0.003),
        metrics=["accuracy"],
    )
history = model.fit(dataset.with_options(options), epochs=args.epochs, steps_per_epoch=20, verbose=2)

# every worker saves, because saving may compute together; only the chief's is kept
folder = os.path.join(os.environ["SM_MODEL_DIR"], "1") if is_chief else f"/tmp/worker-{task['index']}"
model.save(folder)
logits = model(images[1500:1600]).numpy()
loss = tf.keras.losses.sparse_categorical_crossentropy(labels[1500:1600], logits, from_logits=True).numpy().mean()
report.write(
    task["index"], strategy.num_replicas_in_sync, loss,
    losses=history.history["loss"], accuracy=float((logits.argmax(1) == labels[1500:1600]).mean()),
)  # fmt: skip
