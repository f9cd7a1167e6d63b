"""English text that every Python has, the reference manual of `help()`, as blocks of tokens of one length.

One length: a compiler makes new code for each new shape.
"""

from __future__ import annotations

import pydoc_data.topics
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
WORDS = 2000
HELD_OUT = 10  # every tenth block
MASKED_SHARE, NOT_MASKED = 0.15, -100  # the label that losses of transformers leave out

Blocks = NDArray[np.int32]


def train_tokenizer(texts: list[str]) -> Any:
    """A small tokenizer of words and pieces of words."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk_token"]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=WORDS, special_tokens=[*SPECIAL.values()], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def read_blocks(length: int, most: int) -> tuple[Any, Blocks, Blocks]:
    """The tokenizer, the blocks [N, length] to train on, `most` at most, and those held out; always the same."""
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    tokenizer = train_tokenizer(texts)
    tokens = np.array([token for text in texts for token in tokenizer.encode(text)], dtype=np.int32)
    blocks = tokens[: len(tokens) // length * length].reshape(-1, length)
    held_out = np.arange(len(blocks)) % HELD_OUT == 0
    return tokenizer, blocks[~held_out][:most], blocks[held_out][: most // HELD_OUT]


def examples(kind: str, blocks: Blocks, mask: int, seed: int = 0) -> dict[str, Blocks]:
    """What a model of this kind learns from: BERT the words behind the masks, GPT each next word."""
    if kind == "gpt":
        return {"input_ids": blocks, "labels": blocks}
    masked = np.random.default_rng(seed).random(blocks.shape) < MASKED_SHARE
    return {
        "input_ids": np.where(masked, mask, blocks).astype(np.int32),
        "labels": np.where(masked, blocks, NOT_MASKED).astype(np.int32),
    }
