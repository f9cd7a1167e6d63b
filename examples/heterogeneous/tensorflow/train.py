"""Trains a small ResNet on images whose augmentation costs more than the training step, with TensorFlow, on one host.

One switch: has the job a data group beside the group that trains, tf.data.service on its hosts augments the images, and
the training host takes them over the network. Without groups they are augmented where they are trained on. The images
are made on the spot: stripes whose direction is the class, in any colour, below noise.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import tensorflow as tf

import dlc_runtime
from dlc_runtime.dataservice.tensorflow import distribute, serve

SIDE, CLASSES = 32, 6
HELD_OUT = 240
HOST_NAME = "/etc/hostname"


def parse_arguments() -> argparse.Namespace:
    """Hyperparameters arrive as `--name value`, on the data hosts too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=960, help="images of an epoch")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--blurs", type=int, default=20, help="how much work an image is")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR", "model"))
    parser.add_argument("--output-data-dir", type=Path, default=os.environ.get("SM_OUTPUT_DATA_DIR", "output"))
    return parser.parse_args()


def made_image(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Image [SIDE, SIDE, 3] in 0..1 and its label, which follow from its number alone."""
    label = number % CLASSES
    draws = tf.random.stateless_uniform([4], [number, 0])
    angle = tf.cast(label, tf.float32) * math.pi / CLASSES
    places = tf.cast(tf.range(SIDE), tf.float32)
    across = places[None, :] * tf.cos(angle) + places[:, None] * tf.sin(angle)
    stripes = tf.sin(across + draws[0] * 2 * math.pi)[..., None] * (0.3 + 0.7 * draws[1:])
    noise = tf.random.stateless_normal([SIDE, SIDE, 3], [number, 1], stddev=0.3)
    return tf.clip_by_value(0.5 + 0.4 * stripes + noise, 0.0, 1.0), label


def blur_kernel() -> tf.Tensor:
    """[11, 11, 3, 1] for a convolution of each colour."""
    weights = tf.exp(-4 * tf.range(-5.0, 6.0) ** 2)
    kernel = weights[:, None] * weights / tf.reduce_sum(weights) ** 2
    return tf.tile(kernel[..., None, None], [1, 1, 3, 1])


def augmented(image: tf.Tensor, blurs: int) -> tf.Tensor:
    """Cut, coloured and blurred anew each time: what keeps the CPUs busy. As bytes, a quarter of what floats are."""
    image = tf.image.random_crop(tf.image.resize(image, [SIDE + 6, SIDE + 6]), [SIDE, SIDE, 3])
    image = tf.image.random_contrast(tf.image.random_brightness(image, 0.2), 0.7, 1.3)
    kernel = blur_kernel()
    for _ in range(blurs):
        image = tf.nn.depthwise_conv2d(image[None], kernel, [1, 1, 1, 1], "SAME")[0]
    return tf.cast(tf.clip_by_value(image, 0.0, 1.0) * 255, tf.uint8)


def batches_of(arguments: argparse.Namespace, epoch: int) -> tf.data.Dataset:
    """Images, labels, and the name of the host that augmented each image.

    The source has an order of its own in each epoch, and no shuffle follows: the data host that asked first would fill
    the shuffle's buffer with all images, and the others had nothing to do.
    """

    def example(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image, label = made_image(number)
        # The name of the file depends on the image, or TensorFlow would read it once and for all.
        host = tf.io.read_file(tf.where(label < CLASSES, HOST_NAME, ""))
        return augmented(image, arguments.blurs), label, host

    order = numpy.random.default_rng((arguments.seed, epoch)).permutation(arguments.images)
    numbers = tf.data.Dataset.from_tensor_slices(order)
    return numbers.map(example, num_parallel_calls=tf.data.AUTOTUNE).batch(arguments.batch_size)


def build_network() -> tf.keras.Model:
    """Images [N, SIDE, SIDE, 3] in 0..1 to logits [N, CLASSES]."""
    layers = tf.keras.layers
    inputs = tf.keras.Input((SIDE, SIDE, 3))
    now = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
    for channels in (16, 32):
        before = layers.Conv2D(channels, 1, strides=2)(now)
        now = layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(now)
        now = layers.Conv2D(channels, 3, padding="same")(now)
        now = layers.ReLU()(layers.Add()([before, now]))
    return tf.keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(now)))


def accuracy_of(network: tf.keras.Model, images: int) -> float:
    """On images with numbers beyond those of the training."""
    held_out = tf.data.Dataset.range(images, images + HELD_OUT).map(made_image).batch(HELD_OUT)
    pixels, labels = next(iter(held_out))
    return float(tf.reduce_mean(tf.cast(tf.argmax(network(pixels), axis=1) == labels, tf.float32)))


def train(arguments: argparse.Namespace, batches: Callable[[int], tf.data.Dataset]) -> None:
    """Train on the batches of each epoch, and write the model and the metrics."""
    network = build_network()
    optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)

    @tf.function(reduce_retracing=True)  # the last batch of an epoch may be smaller
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = network(tf.cast(images, tf.float32) / 255, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))  # noqa: B905 - Python 3.9
        return loss

    made_on: collections.Counter = collections.Counter()
    for epoch in range(arguments.epochs):
        begin, losses = time.monotonic(), []
        for images, labels, hosts in batches(epoch):
            losses.append(step(images, labels))
            made_on.update(host.decode().strip() for host in hosts.numpy())
        loss = float(tf.reduce_mean(losses))
        seconds = (time.monotonic() - begin) / len(losses)
        print(f"epoch={epoch} loss={loss:.4f} seconds_per_step={seconds:.4f} prepared_on={dict(made_on)}")
    metrics = {"loss": loss, "accuracy": accuracy_of(network, arguments.images), "prepared_on": made_on}
    arguments.output_data_dir.mkdir(parents=True, exist_ok=True)
    (arguments.output_data_dir / "metrics-rank0.json").write_text(json.dumps(metrics))
    arguments.model_dir.mkdir(parents=True, exist_ok=True)
    network.save_weights(str(arguments.model_dir / "network.weights.h5"))
    print(f"done: loss={loss:.4f} accuracy={metrics['accuracy']:.4f}")


def main() -> None:
    arguments, job = parse_arguments(), dlc_runtime.cluster()
    if not job.is_training:
        serve()  # until the job ends
        return
    tf.keras.utils.set_random_seed(arguments.seed)  # before the batches are described: how images vary depends on it

    def batches(epoch: int) -> tf.data.Dataset:
        made = batches_of(arguments, epoch)
        return distribute(made) if len(job.groups) > 1 else made

    train(arguments, batches)


if __name__ == "__main__":
    main()
