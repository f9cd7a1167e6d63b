"""Small models of transformers for PyTorch, made from a configuration: nothing is fetched."""

from __future__ import annotations

from typing import Any

import reference_text
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

WIDTH, LAYERS, HEADS = 64, 2, 2


def build(kind: str, words: int, length: int) -> Any:
    """A model for the examples of this kind. Without dropout, so that a compiled training has the same losses."""
    if kind == "bert":
        return BertForMaskedLM(
            BertConfig(
                vocab_size=words, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                intermediate_size=4 * WIDTH, max_position_embeddings=length,
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            )
        )  # fmt: skip
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=words, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=length,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False,
        )
    )  # fmt: skip
    # Else transformers warns in each step that it takes this one: a graph break, as the compiler's report says.
    model.loss_type = "ForCausalLM"
    return model


class Examples(Dataset[dict[str, torch.Tensor]]):
    """Blocks of tokens with their labels."""

    def __init__(self, kind: str, blocks: reference_text.Blocks, mask: int) -> None:
        arrays = reference_text.examples(kind, blocks, mask)
        self.columns = {name: torch.tensor(array, dtype=torch.int64) for name, array in arrays.items()}

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: column[index] for name, column in self.columns.items()}
