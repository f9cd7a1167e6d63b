"""Sizes and configurations of the models that both frameworks train: transformers' own, no weights are fetched."""

from __future__ import annotations

from typing import Any, NamedTuple

import transformers


class Size(NamedTuple):
    layers: int
    hidden: int
    words: int  # of a text
    vocabulary: int
    pixels: int  # of an image's side
    batch: int


SIZES = {
    "tiny": Size(1, 32, 16, 100, 32, 2),
    "small": Size(2, 256, 64, 2000, 64, 8),
    "deep": Size(6, 256, 64, 2000, 64, 8),  # its blocks are repeated often enough to be compiled once
    "base": Size(12, 768, 512, 30522, 224, 32),
}
HEAD = 64  # numbers of an attention head
LABELS = 10
DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "resid_pdrop", "embd_pdrop",
    "attn_pdrop", "summary_first_dropout",
)  # fmt: skip


def with_dropout(config: Any, share: float | None) -> Any:
    """Set every dropout of a configuration to `share`; None leaves each as it is."""
    for name in DROPOUTS if share is not None else ():
        if hasattr(config, name):
            setattr(config, name, share)
    return config


def bert(size: Size) -> transformers.BertConfig:
    return transformers.BertConfig(vocab_size=size.vocabulary, num_labels=LABELS, **text_parts(size))


def gpt(size: Size) -> transformers.GPT2Config:
    heads = max(1, size.hidden // HEAD)
    return transformers.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.words, n_embd=size.hidden, n_layer=size.layers, n_head=heads,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip


def resnet(size: Size) -> transformers.ResNetConfig:
    """ResNet-50 at the base size; smaller ones have a block of each width."""
    if size == SIZES["base"]:
        widths, depths, first = [256, 512, 1024, 2048], [3, 4, 6, 3], 64
    else:
        widths, depths = [max(8, size.hidden // 8) * 2**stage for stage in range(4)], [1, 1, 1, 1]
        first = widths[0]
    return transformers.ResNetConfig(embedding_size=first, hidden_sizes=widths, depths=depths, num_labels=LABELS)


def vit(size: Size) -> transformers.ViTConfig:
    return transformers.ViTConfig(image_size=size.pixels, patch_size=16, num_labels=LABELS, **text_parts(size))


def text_parts(size: Size) -> dict[str, Any]:
    """What models of words, and of an image's patches, say alike."""
    return {
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": max(1, size.hidden // HEAD),
        "intermediate_size": 4 * size.hidden,
    }
