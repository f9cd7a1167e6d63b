"""transformers' models, eager and compiled as the compiler runtime does it: argv are models, `NAME` or `NAME:WAY`.

Says of each the losses and gradients of both, the masks that reached the backend, and which batches ran uncompiled.
"""

import json
import os
import sys
from pathlib import Path

import torch
import transformers

from dlc_runtime.compiler.pytorch import attention, in_place

torch.set_num_threads(1)
WORDS, ROWS, VOCABULARY = 12, 2, 50
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def model_of(name):
    torch.manual_seed(5)
    if name == "bert":
        config = transformers.BertConfig(vocab_size=VOCABULARY, **TEXT, **NO_DROPOUT)
        return transformers.BertForSequenceClassification(config)
    if name == "vit":
        config = transformers.ViTConfig(image_size=32, patch_size=16, **TEXT, **NO_DROPOUT)
        return transformers.ViTForImageClassification(config)
    if name == "gpt2":
        drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=1, n_head=2, **drop)
        return transformers.GPT2LMHeadModel(config)
    more = {"sliding_window": 8} if name == "mistral" else {}
    kind = "Mistral" if name == "mistral" else "Llama"
    config = getattr(transformers, f"{kind}Config")(vocab_size=VOCABULARY, num_key_value_heads=1, **TEXT, **more)
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def batch_of(name, kind, seed, words=WORDS):
    torch.manual_seed(seed)
    if name == "vit":
        return {"pixel_values": torch.randn(ROWS, 3, 32, 32), "labels": torch.zeros(ROWS, dtype=torch.long)}
    tokens = torch.randint(VOCABULARY, (ROWS, words))
    batch = {"input_ids": tokens, "labels": tokens[:, 0] % 2 if name == "bert" else tokens}
    if kind in ("ones", "padded"):
        batch["attention_mask"] = torch.ones(ROWS, words, dtype=torch.long)
    if kind == "padded":
        batch["attention_mask"][0, words // 2 :] = 0
    if kind in ("counts", "packed"):
        batch["position_ids"] = torch.arange(words).repeat(ROWS, 1)
    if kind == "packed":
        batch["position_ids"][:, words // 2 :] -= words // 2
    if name in ("gpt2", "llama", "mistral") and kind != "cached":
        batch["use_cache"] = False
    return batch


KINDS = {
    "": ["", "", ""],
    "cached": ["cached"] * 2,
    "ones": ["ones"] * 3,
    "counts": ["counts"] * 3,
    "padded": ["ones", "ones", "padded", "ones"],
    "packed": ["counts", "counts", "packed", "counts"],
    "first_padded": ["padded", "ones"],
    "often": ["ones", *["padded"] * 5, "ones"],
    "lengths": [""] * 4,
    "ddp": ["", "ones", "padded"],
}


def run(model, batch):
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return [loss.item(), *(parameter.grad.norm().item() for parameter in model.parameters())]


def in_small_buckets(model):
    """DistributedDataParallel of one rank, whose graphs Dynamo splits at each layer."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1000
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)


def compare(name, way):
    attention.mask_use.kept, attention.mask_use.misses, attention.mask_use.calls = False, 0, 0
    torch._dynamo.reset()
    eager, compiled = model_of(name).train(), model_of(name).train()
    graphs = []

    def backend(graph, inputs):
        nodes = [node for node in graph.graph.nodes if node.target is attention.ATTENTION]
        graphs.append([attention.attention_arguments(node).get("attn_mask") is not None for node in nodes])
        return graph.forward

    called = torch.compile(in_place.call, backend=attention.UnmaskedBackend(backend))
    compiled._compiled_call_impl = lambda *arguments, **named: called(compiled, *arguments, **named)
    used = in_small_buckets(compiled) if way == "ddp" else compiled
    numbers, misses = [], []
    for index, kind in enumerate(KINDS[way]):
        words = WORDS + (index if way == "lengths" else 0)
        before = attention.mask_use.misses
        numbers.append([run(model, batch_of(name, kind, index, words)) for model in (eager, used)])
        misses.append(attention.mask_use.misses - before)
    return {"graphs": graphs, "numbers": numbers, "misses": misses}


found = {case: compare(*(f"{case}:".split(":")[:2])) for case in sys.argv[1:]}
(Path(os.environ["RESULTS"]) / "0.json").write_text(json.dumps(found))
