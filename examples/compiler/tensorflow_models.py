"""Small models of transformers for TensorFlow, made from a configuration: nothing is fetched."""

from __future__ import annotations

import argparse
from typing import Any

import reference_text
import tensorflow as tf
from transformers import BertConfig, GPT2Config, TFBertForMaskedLM, TFGPT2LMHeadModel

WIDTH, LAYERS, HEADS = 64, 2, 2


def build(kind: str, words: int, length: int) -> Any:
    """A model for the examples of this kind. Without dropout: its random numbers differ under XLA."""
    if kind == "bert":
        return TFBertForMaskedLM(
            BertConfig(
                vocab_size=words, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                intermediate_size=4 * WIDTH, max_position_embeddings=length,
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            )
        )  # fmt: skip
    return TFGPT2LMHeadModel(
        GPT2Config(
            vocab_size=words, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=length,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False,
        )
    )  # fmt: skip


def datasets(arguments: argparse.Namespace) -> tuple[Any, tf.data.Dataset, tf.data.Dataset]:
    """The tokenizer, and the batches to train on and to test with."""
    tokenizer, *parts = reference_text.read_blocks(arguments.length, arguments.blocks)
    training, tests = (batches(arguments, blocks, tokenizer.mask_token_id) for blocks in parts)
    return tokenizer, training, tests


def batches(arguments: argparse.Namespace, blocks: reference_text.Blocks, mask: int) -> tf.data.Dataset:
    """Examples in batches of one size, in a new order every epoch."""
    examples = tf.data.Dataset.from_tensor_slices(reference_text.examples(arguments.model, blocks, mask))
    return examples.shuffle(len(blocks), seed=arguments.seed).batch(arguments.batch_size, drop_remainder=True)
