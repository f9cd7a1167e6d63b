"""What waits for TensorFlow's import: with a package of that name that only shows what it finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch_runs import PTH_LINE, SOURCES

SHOW = "print(*sorted(name for name in sys.modules if name.startswith('dlc_runtime')))"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A `tensorflow` that shows the flags with which it is imported, and has nothing to compile."""
    (tmp_path / "tensorflow").mkdir()
    text = "import os\nprint('flags', os.environ.get('TF_XLA_FLAGS', '').replace('=', ' ').split()[0])\n"
    (tmp_path / "tensorflow/__init__.py").write_text(text)
    (tmp_path / "tensorflow-2.21.0.dist-info").mkdir()
    return tmp_path


def run(packages: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.path[:0] = [{str(SOURCES)!r}, {str(packages)!r}]; {PTH_LINE.strip()}; {code}"
    environ = {"PATH": "/usr/bin", "TMPDIR": str(packages), **variables}
    command = [sys.executable, "-I", "-S", "-c", program]  # no other package: this Python may have a TensorFlow
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_a_job_without_tensorflow_loads_only_what_waits_for_it(packages: Path) -> None:
    done = run(packages, SHOW, DLC_COMPILER="xla")
    assert done.stdout.split() == [
        "dlc_runtime",
        "dlc_runtime.after_import",
        "dlc_runtime.compiler",
        "dlc_runtime.compiler.hooks",
        "dlc_runtime.compiler.import_hook",
        "dlc_runtime.compiler.settings",
        "dlc_runtime.compiler.tensorflow_xla",
        "dlc_runtime.compiler.tensorflow_xla.import_hook",
    ]


@pytest.mark.parametrize("compiler", ["", "off", "inductor"])
def test_without_xla_nothing_waits_for_tensorflow(packages: Path, compiler: str) -> None:
    done = run(packages, "print(any('tensorflow' in type(f).__module__ for f in sys.meta_path))", DLC_COMPILER=compiler)
    assert done.stdout.split() == ["False"]


def test_the_flags_are_there_before_tensorflow_is_imported(packages: Path) -> None:
    done = run(packages, "import tensorflow", DLC_COMPILER="xla")
    assert done.stdout.split()[1].startswith("--tf_xla_")


def test_a_tensorflow_that_cannot_be_watched_trains_on_and_it_is_said(packages: Path) -> None:
    done = run(packages, "import tensorflow; print('trained')", DLC_COMPILER="xla")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "trained"
    assert done.stderr.count("dlc compiler: nothing will be compiled: ") == 1


def test_strict_mode_fails_where_nothing_can_be_compiled(packages: Path) -> None:
    done = run(packages, "import tensorflow; print('trained')", DLC_COMPILER="xla", DLC_COMPILER_STRICT="1")
    assert done.returncode == 1
    assert "StrictError: DLC_COMPILER_STRICT=1: nothing can be compiled" in done.stderr


def test_a_value_that_is_not_understood_is_said(packages: Path) -> None:
    done = run(packages, "import tensorflow", DLC_COMPILER="xla", DLC_COMPILER_EAGER_STEPS="many")
    assert "nothing will be compiled: DLC_COMPILER_EAGER_STEPS=many" in done.stderr


def test_a_package_that_is_not_there_is_not_found(packages: Path) -> None:
    done = run(packages / "nowhere", "import importlib.util as u; print(u.find_spec('tensorflow'))", DLC_COMPILER="xla")
    assert done.stdout.split() == ["None"]
