"""Starts the trainings of benchmarks/compiler.py, each in a process of its own, with and without the compiler."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compiling.figures import ROUNDED, Case, Training

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "benchmarks/compiler_models"
PTH = ROOT / "docker/scripts/runtime/dlc_runtime.pth"
HANGS = 1200.0  # seconds of one training, or of those that take turns
TURN = 1.0  # seconds
BUDGET = "60,5%"  # candidates begin at once; by default a short training begins none
WARM_STEPS = 30  # until what is kept from a training before has been compiled and its way is taken
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
        return self.train_in_turns(case, {kind: cache}, batch)[0]

    def train_in_turns(self, case: Case, kinds: Mapping[str, Path | None], batch: int = 0) -> list[Training]:
        """Trainings of several kinds, each with its cache, of which one runs at a time as soon as all are warm."""
        with contextlib.ExitStack() as stack:
            commands = []
            for kind, cache in kinds.items():
                place = self.place(case, kind)
                place.mkdir(parents=True)
                asked = {"DLC_COMPILER": "off"}
                if cache is not None:
                    asked = {"DLC_COMPILER": case.backend, "DLC_COMPILE_CACHE": str(cache)}
                    asked |= {"DLC_COMPILER_REPORT": str(place / "report"), "DLC_COMPILER_MODE": self.mode}
                    asked["DLC_COMPILER_BUDGET"] = BUDGET
                # A container has an empty one as well.
                asked["TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="dlc-bench-"))
                waits = ["--wait-at", str(WARM_STEPS)] if len(kinds) > 1 else []
                argv = self.command(case, kind, place, batch) + waits
                commands.append(Command(argv, clean(asked), f"{case.name}, {kind}"))
            run_in_turns(commands)
        return [self.read(case, kind, compiled=cache is not None) for kind, cache in kinds.items()]

    def place(self, case: Case, kind: str) -> Path:
        return self.folder / case.name.replace(" ", "-") / kind

    def read(self, case: Case, kind: str, *, compiled: bool) -> Training:
        place = self.place(case, kind)
        held = json.loads((place / "out.json").read_text())
        if self.dropout is None:
            held.pop("losses", None)
        if compiled:
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
        if kind == ROUNDED:
            argv.append("--rounding")
        if case.device != "cpu":
            argv += ["--device", case.device, "--dtype", case.dtype]
        return argv + (["--batch", str(batch)] if batch else [])


def run(argv: list[str], environ: dict[str, str], what: str, hangs: float = HANGS) -> str:
    """Its output; the process and its children end with it, also where it hangs."""
    return run_in_turns([Command(argv, environ, what)], hangs)[0]


class Command(NamedTuple):
    argv: list[str]
    environ: dict[str, str]
    what: str  # in messages


def run_in_turns(commands: Sequence[Command], hangs: float = HANGS) -> list[str]:
    """Start one after another, each when the one before has stopped itself; then one runs at a time, for TURN seconds.

    Returns the outputs. So what else the host does meets all alike.
    """
    deadline = time.monotonic() + hangs
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as folder, contextlib.ExitStack() as stack:
        started = []
        for number, command in enumerate(commands):
            started.append(stack.enter_context(Started(command, Path(folder) / str(number), hangs)))
            started[-1].wait_until_stopped(deadline)
        waiting = deque(each for each in started if each.is_running())
        while waiting:
            each = waiting.popleft()
            if each.take_turn(TURN if waiting else hangs, deadline):
                waiting.append(each)
        return [each.output() for each in started]


class Started:
    """A process in a session of its own, whose processes are killed if it has not ended itself."""

    def __init__(self, command: Command, log: Path, hangs: float) -> None:
        self._what, self._log, self._hangs = command.what, log, hangs
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command.argv, env=command.environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until_stopped(self, deadline: float) -> None:
        """Return when it has stopped itself, or has ended."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        while self.is_running() and stat.read_text().rpartition(")")[2].split()[0] != "T":
            self._require_time(deadline)
            time.sleep(0.02)
        self._require_success()

    def take_turn(self, seconds: float, deadline: float) -> bool:
        """Let it run; return whether it has not ended, and is stopped."""
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            self._process.wait(min(seconds, max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            self._require_time(deadline)
            os.killpg(self._process.pid, signal.SIGSTOP)
            return True
        self._require_success()
        return False

    def _require_time(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise FailedTrainingError(f"{self._what}: not done after {self._hangs:.0f} s\n{tail(self.output())}")

    def _require_success(self) -> None:
        if self._process.returncode:
            raise FailedTrainingError(f"{self._what}: exit code {self._process.returncode}\n{tail(self.output())}")


def tail(output: str) -> str:
    return "\n".join(output.splitlines()[-LAST_LINES:])
