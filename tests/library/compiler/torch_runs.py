"""Runs a script of scripts/ in a Python of its own, with torch and the .pth line of the images, compiled or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
SOURCES = HERE.parents[2] / "src"
PTH_LINE = (SOURCES.parent / "docker/scripts/runtime/dlc_runtime.pth").read_text().splitlines()[1]
HANGS = 500  # seconds; only a bound
FOUND_BY = textwrap.dedent("""
    import json, importlib.util, os, shutil, site, sys, sysconfig
    NAMES = ("torch", "torch_xla", "transformers", "accelerate", "pytorch_lightning", "tensorflow", "keras", "tf_keras")
    folders = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    print(json.dumps({
        "executable": sys._base_executable, "version": list(sys.version_info[:2]), "folders": folders,
        "has": [name for name in NAMES if importlib.util.find_spec(name)],
        "tlparse": shutil.which("tlparse", path=os.path.dirname(sys.executable)) or "",
    }))
""")


class TorchPython(NamedTuple):
    """A virtual environment that sees another Python's packages, and has the line that arms the compiler."""

    path: Path
    has: tuple[str, ...]
    tlparse: str  # the program, "" where that Python has none


def make_python(folder: Path, framework: str = "torch") -> TorchPython | None:
    """None where the Python that runs the scripts does not have the framework."""
    asked = os.environ.get(f"DLC_TEST_{framework.upper()}_PYTHON", sys.executable)
    found = json.loads(subprocess.run([asked, "-c", FOUND_BY], capture_output=True, check=True, text=True).stdout)
    if framework not in found["has"]:
        return None
    major, minor = found["version"]
    packages = folder / f"lib/python{major}.{minor}/site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(found["executable"])
    (folder / "pyvenv.cfg").write_text(f"home = {Path(found['executable']).parent}\n")
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in [SOURCES, *found["folders"]]))
    (packages / "zz_dlc_runtime.pth").write_text(PTH_LINE)
    return TorchPython(folder / "bin/python", tuple(found["has"]), found["tlparse"])


class Run(NamedTuple):
    code: int
    log: str
    results: dict[int, dict[str, Any]]
    folder: Path

    @property
    def losses(self) -> list[float]:
        return [float(loss) for loss in self.results[0]["losses"]]

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "report/report.json").read_text()))


class Runner:
    """Starts scripts in folders of `folder`; each compiled run has the same cache unless a test names another."""

    scripts = SCRIPTS
    compiler = "inductor"
    withheld = ("DLC_", "TORCHINDUCTOR")  # how variables begin that must not reach the scripts

    def __init__(self, python: TorchPython, folder: Path, cache: Path) -> None:
        self.python, self.folder = python, folder
        self.variables = {
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            "OMP_NUM_THREADS": "1",
            "DLC_COMPILER_BUDGET": "60,5%",  # ways begin at once; test_beside.py has the default
            "DLC_COMPILER_MODE": "default",  # what is compiled is the same in each run; test_choosing.py measures
        }
        self._runs = 0

    def start(
        self, command: Sequence[str], compiler: str, environ: Mapping[str, str]
    ) -> tuple[subprocess.Popen[str], Path]:
        self._runs += 1
        folder = self.folder / str(self._runs)
        (folder / "results").mkdir(parents=True)
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(self.withheld)},
            "RESULTS": str(folder / "results"),
            "DLC_COMPILER": compiler,
            "DLC_COMPILER_REPORT": str(folder / "report"),
            # As the launcher gives it to every Python of a job
            "PYTHONPATH": str(SOURCES / "entrypoint/python_startup"),
            **self.variables,
            **environ,
        }
        process = subprocess.Popen(
            [str(self.python.path), *command],
            cwd=self.scripts,
            env={name: value for name, value in variables.items() if value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        return process, folder

    def run(
        self,
        *command: str,
        compiler: str | None = None,
        environ: Mapping[str, str] | None = None,
        fails: bool = False,
    ) -> Run:
        return self.end(*self.start(command, self.compiler if compiler is None else compiler, environ or {}), fails)

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
        """Runs it eager and compiled, and asserts that both trained the same model; returns the compiled run."""
        eager = self.run(*command, compiler="", environ=environ)
        compiled = self.run(*command, environ=environ)
        assert_same_model(eager, compiled, weights)
        return compiled


def read_results(folder: Path) -> dict[int, dict[str, Any]]:
    return {int(file.stem): json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def assert_same_model(eager: Run, compiled: Run, tolerance: float) -> None:
    assert eager.results.keys() == compiled.results.keys()
    for rank, expected in eager.results.items():
        found = compiled.results[rank]
        assert len(expected["losses"]) == len(found["losses"])
        for one, other in zip(expected["losses"], found["losses"], strict=True):
            assert abs(one - other) <= 1e-5 * max(1.0, abs(one)), (expected["losses"], found["losses"])
        assert [list(model) for model in expected["weights"]] == [list(model) for model in found["weights"]]
        for one, other in zip(numbers(expected["weights"]), numbers(found["weights"]), strict=True):
            assert abs(one - other) <= tolerance


def numbers(value: Any) -> list[float]:
    """All numbers in nested lists and dictionaries."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [float(value)]


def functions(report: dict[str, Any], part: str) -> set[str]:
    return {entry["function"] for entry in report[part]}
