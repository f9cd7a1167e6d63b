"""A training of transformers' models as people write it, in PyTorch: knows nothing of the compiler; writes its times.

usage: python pytorch_training.py --model bert --size small --steps 30 --out FILE [--seconds S] [--dropout P]
                                  [--wait-at STEP] [--rounding] [--device cuda] [--dtype bf16]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import shapes
import torch
import transformers
from shapes import LABELS, SIZES, Size

BLOCK = Size(2, 4096, 2048, 32000, 224, 4)  # the Llama-like model at its base size: two layers of one with 7e9 numbers


def llama(size: Size) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(
        vocab_size=size.vocabulary, max_position_embeddings=size.words, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        use_cache=False, **shapes.text_parts(size),
    )  # fmt: skip


MODELS = {
    "bert": (transformers.BertForSequenceClassification, shapes.bert),
    "gpt": (transformers.GPT2LMHeadModel, shapes.gpt),
    "llama": (transformers.LlamaForCausalLM, llama),
    "resnet": (transformers.ResNetForImageClassification, shapes.resnet),
    "vit": (transformers.ViTForImageClassification, shapes.vit),
}


def model_of(name: str, size: Size, dropout: float | None) -> torch.nn.Module:
    kind, config = MODELS[name]
    return kind(shapes.with_dropout(config(size), dropout))


def batch_of(model: str, size: Size, device: str) -> dict[str, torch.Tensor]:
    if model in ("resnet", "vit"):
        shape = (size.batch, 3, size.pixels, size.pixels)
        batch = {"pixel_values": torch.randn(shape), "labels": torch.randint(LABELS, (size.batch,))}
    else:
        words = torch.randint(size.vocabulary, (size.batch, size.words))
        batch = {"input_ids": words, "labels": torch.randint(LABELS, (size.batch,)) if model == "bert" else words}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def round_otherwise(model: torch.nn.Module) -> None:
    """Move each weight by one rounding error of its dtype, up or down: what another order of sums does."""
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            signs = torch.randint(2, weight.shape, generator=dice).mul(2).sub(1).to(weight)
            weight.mul_(1 + signs * torch.finfo(weight.dtype).eps)


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    size = BLOCK if (arguments.model, arguments.size) == ("llama", "base") else SIZES[arguments.size]
    size = size._replace(batch=arguments.batch or size.batch)
    on_gpu = arguments.device == "cuda"
    model = model_of(arguments.model, size, arguments.dropout).to(arguments.device).train()
    batches = [batch_of(arguments.model, size, arguments.device) for _ in range(4)]
    if arguments.rounding:
        round_otherwise(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds: list[float] = []
    losses: list[float] = []
    end = time.monotonic() + arguments.seconds
    for step in range(arguments.steps):
        if time.monotonic() > end:
            break
        started = time.perf_counter()
        with torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=arguments.dtype == "bf16"):
            loss = model(**batches[step % len(batches)]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
        losses.append(float(loss.detach()))
        if len(seconds) == arguments.wait_at:
            os.kill(os.getpid(), signal.SIGSTOP)
            end = time.monotonic() + arguments.seconds
    return {
        "seconds": seconds,
        "losses": losses,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "batch": size.batch,
        "framework": f"torch {torch.__version__}, transformers {transformers.__version__}",
        "device": torch.cuda.get_device_name() if on_gpu else "CPU",
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
    parser.add_argument("--rounding", action="store_true", help="the first weights are off by a rounding error")
    parser.add_argument("--dropout", type=float, help="of every layer; without it as the model has it")
    parser.add_argument("--batch", type=int, default=0, help="0: as the size has it")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(train(arguments)))


if __name__ == "__main__":
    main()
