"""dlc_runtime is in the image: scripts import it, and a job that does not ask for the compiler loads nothing of it."""

from __future__ import annotations

import pytest

from harness.engine import run_once
from harness.images import Image

pytestmark = pytest.mark.container

SHOW = "import sys; print(*sorted(name for name in sys.modules if name.startswith('dlc_runtime')))"


def test_a_script_imports_the_runtime(image: Image) -> None:
    done = run_once(
        image.ref, "python", "-I", "-c", "from dlc_runtime.compiler import prepare; print(prepare.__name__)"
    )
    assert (done.returncode, done.stdout) == (0, "prepare\n"), done.stderr


def test_only_a_job_that_asks_for_the_compiler_loads_it(image: Image) -> None:
    plain = run_once(image.ref, "python", "-c", SHOW)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, "\n", "")
    asked = run_once(image.ref, "python", "-c", SHOW, options=("--env", "DLC_COMPILER=inductor"))
    assert (asked.returncode, asked.stdout, asked.stderr) == (
        0,
        "dlc_runtime dlc_runtime.after_import dlc_runtime.compiler dlc_runtime.compiler.import_hook\n",
        "",
    )
