"""Trains transformers' models as people write it, with Keras `fit`: knows nothing of the compiler; writes its times.

usage: TF_USE_LEGACY_KERAS=1 python tensorflow_training.py --model bert --size small --steps 30 --out FILE
                                                          [--seconds S] [--dropout P] [--wait-at STEP] [--rounding]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import shapes
import tensorflow as tf
import transformers
from shapes import LABELS, SIZES, Size

BATCHES = 4
MODELS = {
    "bert": (transformers.TFBertForSequenceClassification, shapes.bert),
    "gpt": (transformers.TFGPT2LMHeadModel, shapes.gpt),
    "resnet": (transformers.TFResNetForImageClassification, shapes.resnet),
    "vit": (transformers.TFViTForImageClassification, shapes.vit),
}


def model_of(name: str, size: Size, dropout: float | None) -> Any:
    kind, config = MODELS[name]
    return kind(shapes.with_dropout(config(size), dropout))


def batches_of(model: str, size: Size) -> tf.data.Dataset:
    dice = np.random.default_rng(0)
    count = BATCHES * size.batch
    labels = dice.integers(LABELS, size=count)
    if model in ("resnet", "vit"):
        shape = (count, 3, size.pixels, size.pixels)
        data = {"pixel_values": dice.standard_normal(shape).astype("float32"), "labels": labels}
    else:
        words = dice.integers(size.vocabulary, size=(count, size.words))
        data = {"input_ids": words, "labels": labels if model == "bert" else words}
    return tf.data.Dataset.from_tensor_slices(data).batch(size.batch, drop_remainder=True).cache().repeat()


def round_otherwise(model: Any) -> None:
    """Move each weight by one rounding error of its dtype, up or down: what another order of sums does."""
    dice = np.random.default_rng(1)
    for weight in model.trainable_variables:
        held = weight.numpy()
        signs = dice.choice(np.array([-1, 1], held.dtype), held.shape)
        weight.assign(held * (1 + signs * np.finfo(held.dtype).eps))


class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, seconds: float, wait_at: int, rounding: bool) -> None:
        super().__init__()
        self._lasts, self._wait_at, self._rounding = seconds, wait_at, rounding
        self._end = time.monotonic() + seconds
        self.seconds: list[float] = []
        self.losses: list[float] = []  # as Keras's logs have them: the mean of the steps so far
        self._started = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seconds.append(time.perf_counter() - self._started)
        self.losses.append(float(logs["loss"]))
        if self._rounding and len(self.seconds) == 1:  # a model of transformers has no weights before its first step
            round_otherwise(self.model)
        if len(self.seconds) == self._wait_at:
            os.kill(os.getpid(), signal.SIGSTOP)
            self._end = time.monotonic() + self._lasts
        self.model.stop_training = self.model.stop_training or time.monotonic() > self._end


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    tf.keras.utils.set_random_seed(0)
    size = SIZES[arguments.size]
    model = model_of(arguments.model, size, arguments.dropout)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-4))
    clock = Clock(arguments.seconds, arguments.wait_at, arguments.rounding)
    data = batches_of(arguments.model, size)
    model.fit(data, epochs=1, steps_per_epoch=arguments.steps, verbose=0, callbacks=[clock])
    return {
        "seconds": clock.seconds,
        "losses": clock.losses,
        "peak_bytes": 0,
        "batch": size.batch,
        "framework": f"TensorFlow {tf.__version__}, transformers {transformers.__version__}",
        "device": "CPU",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no step begins after so many")
    parser.add_argument(
        "--wait-at", type=int, default=0, help="steps until it stops itself; --seconds begin after that"
    )
    parser.add_argument("--rounding", action="store_true", help="the weights are off by a rounding error after a step")
    parser.add_argument("--dropout", type=float, help="of every layer; without it as the model has it")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(train(arguments)))


if __name__ == "__main__":
    main()
