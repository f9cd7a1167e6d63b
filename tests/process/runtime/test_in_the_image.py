"""How the image holds dlc_runtime: a line in the environment's packages, which costs a plain job nothing."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
INSTALL = SOURCES.parent / "docker/scripts/runtime/install.sh"
SHOW = "import sys; print(*sorted(name for name in sys.modules if name.startswith('dlc_runtime')))"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A virtual environment as the image's is."""
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    subprocess.run([INSTALL, folder, tmp_path / "image"], check=True)
    [line] = (tmp_path / "image").rglob("dlc_runtime.pth")
    packages = tmp_path / "image" / folder.relative_to("/") / f"lib/python3.{sys.version_info.minor}/site-packages"
    assert line.parent == packages
    text = line.read_text().replace("/opt/dlc/runtime", str(SOURCES)).replace("/opt/dlc", str(SOURCES))
    (folder / f"lib/python3.{sys.version_info.minor}/site-packages/dlc_runtime.pth").write_text(text)
    return folder / "bin/python"


def run(python: Path, code: str, **variables: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_script_can_import_it_without_any_variable(python: Path) -> None:
    assert run(python, "import dlc_runtime.compiler; print(dlc_runtime.compiler.prepare.__name__)") == "prepare"


def test_a_plain_job_loads_nothing_of_it(python: Path) -> None:
    assert run(python, SHOW) == run(python, SHOW, DLC_COMPILER="") == ""


def test_what_arms_the_compiler_is_all_that_a_job_without_torch_loads(python: Path) -> None:
    loaded = "dlc_runtime dlc_runtime.after_import dlc_runtime.compiler dlc_runtime.compiler.import_hook"
    assert run(python, SHOW, DLC_COMPILER="inductor") == loaded
    assert run(python, SHOW, DLC_COMPILER="off") == loaded


@pytest.mark.parametrize(("folder", "said"), [("sm_drivers/distributed_drivers", "dlc: "), ("sm_drivers", "itself")])
def test_a_driver_of_the_sdk_becomes_the_launcher_and_no_other_program(
    python: Path, tmp_path: Path, folder: str, said: str
) -> None:
    driver = tmp_path / folder / "mpi_driver.py"
    driver.parent.mkdir(parents=True)
    driver.write_text("import sys; sys.exit('itself')")
    variables = {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml"), "SM_ENTRY_SCRIPT": "train.py"}
    done = subprocess.run([python, driver, "--epochs", "3"], env=variables, capture_output=True, text=True, check=False)
    assert done.stderr.startswith(said)
    assert done.returncode == (66 if said == "dlc: " else 1)
    assert ("train.py" in done.stderr) == (said == "dlc: ")
