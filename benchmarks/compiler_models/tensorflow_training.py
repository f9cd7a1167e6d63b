"""Trains transformers' models as people write it, with Keras `fit`: knows nothing of the compiler; writes its times.

usage: TF_USE_LEGACY_KERAS=1 python tensorflow_training.py --model bert --size small --steps 30 --out FILE
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import shapes
import tensorflow as tf
import transformers
from shapes import LABELS, SIZES, Size

BATCHES = 4


def bert(size: Size) -> Any:
    return transformers.TFBertForSequenceClassification(shapes.bert(size))


def gpt(size: Size) -> Any:
    return transformers.TFGPT2LMHeadModel(shapes.gpt(size))


def resnet(size: Size) -> Any:
    return transformers.TFResNetForImageClassification(shapes.resnet(size))


def vit(size: Size) -> Any:
    return transformers.TFViTForImageClassification(shapes.vit(size))


MODELS = {"bert": bert, "gpt": gpt, "resnet": resnet, "vit": vit}


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


class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._started = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seconds.append(time.perf_counter() - self._started)


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    tf.keras.utils.set_random_seed(0)
    size = SIZES[arguments.size]
    model = MODELS[arguments.model](size)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-4))
    clock = Clock()
    data = batches_of(arguments.model, size)
    model.fit(data, epochs=1, steps_per_epoch=arguments.steps, verbose=0, callbacks=[clock])
    return {
        "seconds": clock.seconds,
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
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(train(arguments)))


if __name__ == "__main__":
    main()
