"""Keras `fit` with Horovod: rank and size scale the learning rate, callbacks broadcast and average."""

import argparse
import os

import horovod.tensorflow.keras as hvd
import numpy as np
import report
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
args, _ = parser.parse_known_args()

hvd.init()
tf.keras.utils.set_random_seed(7)
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

digits = load_digits()
images = (digits["images"] / 16).astype(np.float32)[..., np.newaxis]
labels = digits["target"].astype(np.int64)
dataset = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500]))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(1000).batch(args.batch_size)

model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(16, [3, 3], activation="relu", input_shape=(8, 8, 1)),
    tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])  # fmt: skip
scaled_lr = 0.003 * hvd.size()
optimizer = hvd.DistributedOptimizer(tf.optimizers.Adam(scaled_lr))
# Keras would leave the optimizer's own get_gradients out of its graph otherwise
model.compile(
    loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=optimizer, metrics=["accuracy"],
    experimental_run_tf_function=False,
)  # fmt: skip
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=2, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(os.path.join(args.model_dir, "checkpoint-{epoch}.h5")))
history = model.fit(
    dataset, steps_per_epoch=40 // hvd.size(), callbacks=callbacks, epochs=args.epochs,
    verbose=2 if hvd.rank() == 0 else 0,
)  # fmt: skip

held_out = model(images[1500:1600], training=False).numpy()
loss = tf.keras.losses.sparse_categorical_crossentropy(labels[1500:1600], held_out).numpy().mean()
report.write(hvd.rank(), hvd.size(), loss, losses=[float(value) for value in history.history["loss"]])
