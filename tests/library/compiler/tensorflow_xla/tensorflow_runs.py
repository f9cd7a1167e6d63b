"""Runs a script of scripts/ in a Python with TensorFlow and the .pth line of the images, compiled by XLA or not."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import torch_runs
from torch_runs import Run, TorchPython

SCRIPTS = Path(__file__).parent / "scripts"


class Runner(torch_runs.Runner):
    """Without XLA is what `both` calls eager."""

    scripts = SCRIPTS
    compiler = "xla"
    withheld = ("DLC_", "TF_", "XLA_", "KERAS_")

    def __init__(self, python: TorchPython, folder: Path) -> None:
        super().__init__(python, folder, folder)
        self.variables = {
            "DLC_COMPILER_MODE": "default",  # the scripts are short: their sixth step is compiled
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "CUDA_VISIBLE_DEVICES": "-1",
        }


def at_once(runner: Runner, command: list[str], compiler: str, environ: dict[str, str]) -> list[Run]:
    """Two workers of one cluster."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    started = []
    for index in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        started.append(runner.start(command, compiler, {**environ, "TF_CONFIG": config}))
    try:
        return [runner.end(*process) for process in started]
    finally:
        for process, _ in started:
            process.kill()
            process.communicate()


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(held.getsockname()[1]) for held in sockets]
