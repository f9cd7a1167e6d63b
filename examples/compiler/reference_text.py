"""English text that every Python has, the reference manual of `help()`, as blocks of tokens of one length.

One length: a compiler makes new code for each new shape.
"""

from __future__ import annotations

import collections
import pydoc_data.topics
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
WORDS = 2000
HELD_OUT = 10  # every tenth block
MASKED_SHARE, NOT_MASKED = 0.15, -100  # the label that losses of transformers leave out

Blocks = NDArray[np.int32]


def make_tokenizer(texts: list[str]) -> Any:
    """A tokenizer of the most frequent words. The trainers of `tokenizers` do not make the same one each time."""
    normalizer, splitter = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    words = collections.Counter(
        word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    )
    frequent = [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))]
    kept = [*SPECIAL.values(), *frequent][:WORDS]
    vocabulary = {word: number for number, word in enumerate(kept)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk_token"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def read_blocks(length: int, most: int) -> tuple[Any, Blocks, Blocks]:
    """The tokenizer, the blocks [N, length] to train on, `most` at most, and those held out; always the same."""
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    tokenizer = make_tokenizer(texts)
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
