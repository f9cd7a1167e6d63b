"""transformers' models in bfloat16 autocast, in a plain loop and as Accelerate wraps them for the Trainer.

Says of each the graphs that Dynamo makes of a forward, with the casts and the other operations in each.
"""

import json
import os
from pathlib import Path

import accelerate
import torch
from torch._dynamo.backends.common import aot_autograd
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from dlc_runtime.compiler import settings
from dlc_runtime.compiler.pytorch import attention, dynamo, in_place

torch.set_num_threads(1)
WORDS, VOCABULARY = 12, 50
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
MODELS = {
    "bert": lambda: BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, **TEXT)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    ),
}


def counts(graph):
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    casts = sum("_to_copy" in name for name in names)
    return {"casts": casts, "operations": len(names) - casts}


def graphs_of(name, way):
    torch._dynamo.reset()
    model = MODELS[name]().train()
    tokens = torch.randint(VOCABULARY, (2, WORDS))
    batch = {"input_ids": tokens, "labels": tokens[:, 0] % 2 if name == "bert" else tokens}
    found = []

    def keep(graph, _inputs):
        found.append(counts(graph))
        return graph.forward

    backend = attention.UnmaskedBackend(aot_autograd(fw_compiler=keep, bw_compiler=lambda graph, _: graph.forward))
    if way == "accelerate":
        model = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare_model(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "plain"):
        model(**batch)  # the runtime compiles after eager steps
        called = torch.compile(in_place.call, backend=backend)
        model._compiled_call_impl = lambda *arguments, **named: called(model, *arguments, **named)
        model(**batch)
    return found


dynamo.configure(settings.Settings())
names = MODELS if torch.__version__ >= (2, 7) else ()
found = {name: {way: graphs_of(name, way) for way in ("plain", "accelerate")} for name in names}
(Path(os.environ["RESULTS"]) / "0.json").write_text(json.dumps(found))
