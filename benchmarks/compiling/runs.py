"""Starts the trainings of benchmarks/compiler.py, each in a process of its own, with and without the compiler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from compiling.figures import Case, Training

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "benchmarks/compiler_models"
PTH = ROOT / "docker/scripts/runtime/dlc_runtime.pth"
HANGS = 1200.0  # seconds of one training
LAST_LINES = 12
OURS = ("DLC_", "TORCHINDUCTOR_", "TORCH_COMPILE", "TF_XLA_FLAGS", "XLA_FLAGS")
NEEDS = {"pytorch": ("torch", "transformers"), "tensorflow": ("tensorflow", "transformers", "tf_keras")}
LIBRARIES = "import sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_path('platlib'))"


class FailedTrainingError(Exception):
    """Its text says which one, and the last lines that it wrote."""


class Pythons(NamedTuple):
    """Two environments above one Python's packages: as in an image, with dlc_runtime's line, and without it."""

    with_line: Path
    without: Path


def pythons(python: str, folder: Path) -> Pythons:
    sources = folder / "runtime"
    if not sources.exists():
        sources.mkdir(parents=True)
        for name in ("dlc_runtime", "dlc_channel"):
            (sources / name).symlink_to(ROOT / "src" / name)
    found = subprocess.run([python, "-c", LIBRARIES], check=True, capture_output=True, text=True).stdout.split()
    packages = "\n".join(dict.fromkeys(found))
    line = PTH.read_text().replace("/opt/dlc/runtime", str(sources))
    return Pythons(
        environment(python, folder / "with", {"a_packages.pth": packages, "dlc_runtime.pth": line}),
        environment(python, folder / "without", {"a_packages.pth": packages}),
    )


def environment(python: str, folder: Path, lines: dict[str, str]) -> Path:
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for name, text in lines.items():
        (site / name).write_text(text + "\n")
    return folder / "bin/python"


def lacks(python: str, framework: str) -> list[str]:
    """Packages of a framework's trainings that this Python does not have."""
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    done = subprocess.run([python, "-c", code, *NEEDS[framework]], check=True, capture_output=True, text=True)
    return done.stdout.split()


def clean(more: dict[str, str]) -> dict[str, str]:
    """This environment without what would change a training."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS) and name != "PYTHONPATH"}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "TOKENIZERS_PARALLELISM": "false", **more}


class Runner(NamedTuple):
    """Starts trainings of one size; what they write is below `folder`."""

    folder: Path
    size: str
    steps: int
    pythons: dict[str, Pythons]
    seconds: Mapping[str, float] = {}  # of a training by its kind, where not its steps end it
    mode: str = ""  # DLC_COMPILER_MODE; "" for the runtime's own default
    dropout: float | None = None  # None: as the models have it; their losses are not compared then

    def train(self, case: Case, kind: str, cache: Path | None = None, batch: int = 0) -> Training:
        """`cache`: the folder of compiled code of a compiled training; None for an eager one."""
        place = self.folder / case.name.replace(" ", "-") / kind
        place.mkdir(parents=True)
        asked = {"DLC_COMPILER": "off"}
        if cache is not None:
            asked = {"DLC_COMPILER": case.backend, "DLC_COMPILE_CACHE": str(cache)}
            asked |= {"DLC_COMPILER_REPORT": str(place / "report"), "DLC_COMPILER_MODE": self.mode}
        with tempfile.TemporaryDirectory(prefix="dlc-bench-") as own:  # a container has an empty one as well
            run(self.command(case, kind, place, batch), clean({**asked, "TMPDIR": own}), f"{case.name}, {kind}")
        held = json.loads((place / "out.json").read_text())
        if self.dropout is None:
            held.pop("losses", None)
        if cache is not None:
            held["report"] = json.loads((place / "report/report.json").read_text())
        return Training(**held)

    def command(self, case: Case, kind: str, place: Path, batch: int) -> list[str]:
        script = SCRIPTS / f"{case.framework}_training.py"
        python = self.pythons[case.framework].with_line
        argv = [str(python), str(script), "--model", case.model, "--size", self.size, "--steps", str(self.steps)]
        argv += ["--out", str(place / "out.json")]
        if kind in self.seconds:
            argv += ["--seconds", str(self.seconds[kind])]
        if self.dropout is not None:
            argv += ["--dropout", str(self.dropout)]
        if case.device != "cpu":
            argv += ["--device", case.device, "--dtype", case.dtype]
        return argv + (["--batch", str(batch)] if batch else [])


def run(argv: list[str], environ: dict[str, str], what: str, hangs: float = HANGS) -> str:
    """Its output; the process and its children end with it, also where it hangs."""
    process = subprocess.Popen(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=hangs)
    except BaseException as fault:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if isinstance(fault, subprocess.TimeoutExpired):
            raise FailedTrainingError(f"{what}: not done after {hangs:.0f} s\n{tail(output)}") from None
        raise
    if process.returncode:
        raise FailedTrainingError(f"{what}: exit code {process.returncode}\n{tail(output)}")
    return output


def tail(output: str) -> str:
    return "\n".join(output.splitlines()[-LAST_LINES:])
