"""Trains transformers' models as people write it, with Keras `fit`: knows nothing of the compiler; writes its times.

usage: TF_USE_LEGACY_KERAS=1 python tensorflow_training.py --model bert --size small --steps 30 --out FILE
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import transformers


class Size(NamedTuple):
    layers: int
    hidden: int
    words: int  # of a text
    vocabulary: int
    pixels: int  # of an image's side
    batch: int


SIZES = {"tiny": Size(1, 32, 16, 100, 32, 2), "small": Size(2, 256, 128, 2000, 64, 8)}
HEAD = 64  # numbers of an attention head
LABELS = 10
BATCHES = 4


def text_parts(size: Size) -> dict[str, int]:
    return {
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": max(1, size.hidden // HEAD),
        "intermediate_size": 4 * size.hidden,
    }


def bert(size: Size) -> Any:
    config = transformers.BertConfig(vocab_size=size.vocabulary, num_labels=LABELS, **text_parts(size))
    return transformers.TFBertForSequenceClassification(config)


def gpt(size: Size) -> Any:
    heads = max(1, size.hidden // HEAD)
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.words, n_embd=size.hidden, n_layer=size.layers, n_head=heads,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    return transformers.TFGPT2LMHeadModel(config)


def resnet(size: Size) -> Any:
    """A block of each width."""
    widths = [max(8, size.hidden // 8) * 2**stage for stage in range(4)]
    config = transformers.ResNetConfig(
        embedding_size=widths[0], hidden_sizes=widths, depths=[1, 1, 1, 1], num_labels=LABELS
    )
    return transformers.TFResNetForImageClassification(config)


def vit(size: Size) -> Any:
    config = transformers.ViTConfig(image_size=size.pixels, patch_size=16, num_labels=LABELS, **text_parts(size))
    return transformers.TFViTForImageClassification(config)


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
