"""Runs a script of scripts/ in a Python with TensorFlow and the .pth line of the images, compiled by XLA or not."""

from __future__ import annotations

from pathlib import Path

import torch_runs
from torch_runs import TorchPython

SCRIPTS = Path(__file__).parent / "scripts"


class Runner(torch_runs.Runner):
    """Without XLA is what `both` calls eager."""

    scripts = SCRIPTS
    compiler = "xla"
    withheld = ("DLC_", "TF_", "XLA_", "KERAS_")

    def __init__(self, python: TorchPython, folder: Path) -> None:
        super().__init__(python, folder, folder)
        self.variables = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
