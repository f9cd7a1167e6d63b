"""Trains a small convolutional network on handwritten digits with TensorFlow, on one host or on many.

The data are scikit-learn's digits (1797 grey images of 8x8 pixels, 10 classes), shipped with that package, or a file
digits.npz (arrays `images` [N, 8, 8] with values 0..16 and `labels` [N]) in the channel "training".
Where TF_CONFIG names more than one worker, MultiWorkerMirroredStrategy keeps their weights equal.
On SIGTERM the state is saved after the running epoch, and the next start goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tensorflow import keras  # TensorFlow 2.12 has other optimizers below a plain `import keras`

CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
WORKERS = len(CONFIG.get("cluster", {}).get("worker", [])) or 1
RANK = CONFIG.get("task", {}).get("index", 0)
ENDED_BY_SIGTERM = 128 + signal.SIGTERM


def parse_arguments() -> argparse.Namespace:
    """Hyperparameters arrive as `--name value`; where to read and write comes from the SM_* variables."""

    def switch(text: str) -> bool:  # a hyperparameter has a value, so `--compile True` must work as `--compile` does
        return text.lower() in ("1", "true", "yes")

    environment = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per replica and step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--compile", type=switch, nargs="?", const=True, default=False, help="use XLA (jit_compile)")
    parser.add_argument("--training", type=Path, default=environment("SM_CHANNEL_TRAINING"))
    parser.add_argument("--model-dir", type=Path, default=environment("SM_MODEL_DIR", "model"))
    parser.add_argument("--output-data-dir", type=Path, default=environment("SM_OUTPUT_DATA_DIR", "output"))
    parser.add_argument("--checkpoint-dir", type=Path, default="/opt/ml/checkpoints")
    return parser.parse_args()


def read_digits(channel: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images [N, 8, 8, 1] in 0..1, held-out ones (a fifth), the labels [N] of both; the same everywhere."""
    data = np.load(channel / "digits.npz") if channel else load_digits()
    images = data["images"].astype(np.float32)[..., np.newaxis] / 16
    labels = data["labels" if channel else "target"].astype(np.int64)
    return tuple(train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels))


def build_network() -> keras.Model:
    """Images [N, 8, 8, 1] to logits [N, 10]."""
    convolution = {"kernel_size": 3, "padding": "same", "activation": "relu"}
    return keras.Sequential([
        keras.Input((8, 8, 1)), keras.layers.Conv2D(32, **convolution), keras.layers.Conv2D(64, **convolution),
        keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dropout(0.25), keras.layers.Dense(10),
    ])  # fmt: skip


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Mean over the batch."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


class Trainer:
    """The network, its optimizer, and an epoch compiled for every replica of every worker."""

    def __init__(self, strategy: tf.distribute.Strategy, arguments: argparse.Namespace) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.network = build_network()
            self.optimizer = keras.optimizers.Adam(arguments.learning_rate)
            self.optimizer.build(self.network.trainable_variables)
        # XLA compiles what one replica computes; the exchange between replicas stays outside.
        self.gradients = tf.function(self._gradients, jit_compile=arguments.compile)

    def _gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, self.network(images, training=True))
            # The optimizer adds up the gradients of all replicas: a share each makes their mean.
            share = loss / self.strategy.num_replicas_in_sync
        return loss, tape.gradient(share, self.network.trainable_variables)

    def _step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss, gradients = self.gradients(images, labels)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables))  # noqa: B905 (AutoGraph's zip has no such argument)
        return loss

    @tf.function
    def epoch(self, batches: tf.distribute.DistributedDataset) -> tf.Tensor:
        """One pass over the data; returns the mean loss of all replicas."""
        total, steps = 0.0, 0.0
        for images, labels in batches:
            losses = self.strategy.run(self._step, args=(images, labels))
            total += self.strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)
            steps += 1.0
        return total / steps

    @tf.function
    def any_worker_says(self, flag: tf.Tensor) -> tf.Tensor:
        """Whether the flag (0 or 1) is set anywhere: all must leave the loop at the same epoch."""
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, self.strategy.run(lambda: flag), axis=None) > 0

    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Accuracy and mean loss over the held-out set: every worker that holds the same weights gets the same."""
        logits = self.network(images, training=False)
        accuracy = tf.reduce_mean(tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32))
        return float(accuracy), float(cross_entropy(labels, logits))

    def variables(self) -> list[tf.Variable]:
        """All that training changes."""
        return [*self.network.variables, *self.optimizer.variables]


def share_of_worker(images: np.ndarray, labels: np.ndarray, batch_size: int, seed: int) -> tf.data.Dataset:
    """This worker's part of the training set in batches of one shape, in a new order every epoch."""
    examples = tf.data.Dataset.from_tensor_slices((images, labels)).shard(WORKERS, RANK)
    return examples.shuffle(len(labels), seed=seed).batch(batch_size, drop_remainder=True)


def train(arguments: argparse.Namespace) -> int:
    """Train, then write the model (worker 0) and the metrics (every worker); returns the exit code."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if WORKERS > 1 else tf.distribute.MirroredStrategy()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    keras.utils.set_random_seed(arguments.seed)
    images, held_out_images, labels, held_out_labels = read_digits(arguments.training)
    batches = strategy.distribute_datasets_from_function(
        lambda context: share_of_worker(images, labels, arguments.batch_size, arguments.seed)
    )
    trainer = Trainer(strategy, arguments)
    checkpoint, first_epoch = arguments.checkpoint_dir / "digits.npz", 0
    if checkpoint.exists():
        with np.load(checkpoint) as state:
            first_epoch = int(state["epoch"])
            for index, variable in enumerate(trainer.variables()):
                variable.assign(state[f"arr_{index}"])
        print(f"continuing after epoch {first_epoch} of {checkpoint}")

    for epoch in range(first_epoch + 1, arguments.epochs + 1):
        training_loss = float(trainer.epoch(batches))
        accuracy, loss = trainer.evaluate(held_out_images, held_out_labels)
        print(f"epoch={epoch} training_loss={training_loss:.4f} loss={loss:.4f} accuracy={accuracy:.4f}")
        if trainer.any_worker_says(tf.constant(len(stopping))):
            arguments.checkpoint_dir.mkdir(parents=True, exist_ok=True)
            np.savez(checkpoint, *[variable.numpy() for variable in trainer.variables()], epoch=epoch)
            print(f"stopped by SIGTERM: saved {checkpoint}")
            return ENDED_BY_SIGTERM

    accuracy, loss = trainer.evaluate(held_out_images, held_out_labels)
    metrics = {"rank": RANK, "world_size": WORKERS, "accuracy": accuracy, "loss": loss}
    arguments.output_data_dir.mkdir(parents=True, exist_ok=True)
    (arguments.output_data_dir / f"metrics-rank{RANK}.json").write_text(json.dumps(metrics))
    if RANK == 0:
        arguments.model_dir.mkdir(parents=True, exist_ok=True)
        trainer.network.save(arguments.model_dir / "model.keras")
    print(f"done: accuracy={accuracy:.4f} loss={loss:.6f} rank={RANK} of {WORKERS}")
    return 0


if __name__ == "__main__":
    sys.exit(train(parse_arguments()))
