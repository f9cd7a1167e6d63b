"""A small convolutional network with Keras `fit`, from .npy files of the channels; curves go to TensorBoard."""

import argparse
import json
import os

import numpy as np
import report
import tensorflow as tf


def build_model(learning_rate):
    model = tf.keras.models.Sequential([
        tf.keras.layers.InputLayer((8, 8, 1)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    optimizer = tf.keras.optimizers.Adam(learning_rate)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _load(folder):
    return np.load(os.path.join(folder, "images.npy")), np.load(os.path.join(folder, "labels.npy"))


def _parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--learning_rate", type=float, default=0.003)
    # model_dir is always passed in; /opt/ml/model is where the artifacts are taken from
    parser.add_argument("--model_dir", type=str)
    parser.add_argument("--sm-model-dir", type=str, default=os.environ.get("SM_MODEL_DIR"))
    parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAINING"))
    parser.add_argument("--evaluation", type=str, default=os.environ.get("SM_CHANNEL_EVALUATION"))
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ.get("SM_HOSTS")))
    parser.add_argument("--current-host", type=str, default=os.environ.get("SM_CURRENT_HOST"))
    return parser.parse_known_args()


if __name__ == "__main__":
    args, unknown = _parse_args()
    tf.keras.utils.set_random_seed(7)
    images, labels = _load(args.train)
    logs = os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "logs")
    callbacks = [
        tf.keras.callbacks.TensorBoard(log_dir=os.path.join(logs, "keras")),
        tf.keras.callbacks.ModelCheckpoint(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "best.keras"), verbose=1),
    ]
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)
    model = build_model(args.learning_rate)
    model.fit(dataset, epochs=args.epochs, callbacks=callbacks, verbose=2)
    loss, accuracy = model.evaluate(*_load(args.evaluation), verbose=0)

    writer = tf.summary.create_file_writer(os.path.join(logs, "own"))
    with writer.as_default():
        tf.summary.scalar("final/accuracy", accuracy, step=args.epochs)
    writer.close()
    if args.current_host == args.hosts[0]:
        # version 1 below the model's folder, as TensorFlow Serving wants it
        tf.saved_model.save(model, os.path.join(args.sm_model_dir, "00000001"))
    report.write(0, 1, loss, accuracy=accuracy, model_dir=args.model_dir, unknown=unknown)
