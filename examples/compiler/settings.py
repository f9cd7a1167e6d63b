"""What the scripts of this folder read from their hyperparameters, and what they write at the end; no framework."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path


def parse_arguments(description: str | None) -> argparse.Namespace:
    """Hyperparameters arrive as `--name value`; where to write comes from the SM_* variables."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=("bert", "gpt"), default="bert")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--length", type=int, default=32, help="tokens of a block")
    parser.add_argument("--blocks", type=int, default=320, help="most blocks of an epoch")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR", "model"))
    parser.add_argument("--output-data-dir", type=Path, default=os.environ.get("SM_OUTPUT_DATA_DIR", "output"))
    return parser.parse_args()


def write_metrics(arguments: argparse.Namespace, rank: int, losses: list[float], held_out: float) -> None:
    """The losses of the training in its order, and that of the held-out blocks."""
    arguments.output_data_dir.mkdir(parents=True, exist_ok=True)
    metrics = {"rank": rank, "losses": losses, "held_out_loss": held_out}
    (arguments.output_data_dir / f"metrics-rank{rank}.json").write_text(json.dumps(metrics))
    print(f"done: model={arguments.model} first_loss={losses[0]:.3f} loss={losses[-1]:.3f} held_out={held_out:.3f}")
