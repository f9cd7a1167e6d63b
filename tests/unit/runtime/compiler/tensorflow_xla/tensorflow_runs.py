"""Runs a script of scripts/ in a Python with TensorFlow and the .pth line of the images, compiled by XLA or not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch_runs import HANGS, Run, TorchPython, assert_same_model, read_results

SCRIPTS = Path(__file__).parent / "scripts"
OURS = ("DLC_", "TF_", "XLA_", "KERAS_")


class Runner:
    """Starts scripts in folders of `folder`."""

    def __init__(self, python: TorchPython, folder: Path) -> None:
        self.python, self.folder = python, folder
        self._runs = 0

    def start(
        self, command: Sequence[str], compiler: str, environ: Mapping[str, str]
    ) -> tuple[subprocess.Popen[str], Path]:
        self._runs += 1
        folder = self.folder / str(self._runs)
        (folder / "results").mkdir(parents=True)
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(OURS)},
            "RESULTS": str(folder / "results"),
            "DLC_COMPILER": compiler,
            "DLC_COMPILER_REPORT": str(folder / "report"),
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": "",
            **environ,
        }
        process = subprocess.Popen(
            [str(self.python.path), *command],
            cwd=SCRIPTS,
            env={name: value for name, value in variables.items() if value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        return process, folder

    def run(
        self, *command: str, compiler: str = "xla", environ: Mapping[str, str] | None = None, fails: bool = False
    ) -> Run:
        process, folder = self.start(command, compiler, environ or {})
        return self.end(process, folder, fails)

    def end(self, process: subprocess.Popen[str], folder: Path, fails: bool = False) -> Run:
        try:
            log, _ = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            log, _ = process.communicate()
            raise AssertionError(f"it hangs:\n{log}") from None
        if not fails:
            assert process.returncode == 0, log
        return Run(process.returncode, log, read_results(folder / "results"), folder)

    def both(self, *command: str, environ: Mapping[str, str] | None = None, weights: float = 1e-4) -> Run:
        """Runs it without XLA and with it, and asserts that both trained the same model; returns the compiled run."""
        plain = self.run(*command, compiler="", environ=environ)
        compiled = self.run(*command, environ=environ)
        assert_same_model(plain, compiled, weights)
        return compiled
