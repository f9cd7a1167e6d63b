"""`docker run --network none`: the host's own name leads nowhere, and libraries that look it up work all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine import CALM_OPTIONS, run_once
from harness.images import Image
from harness.opt_ml import lay_out

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
HANG_SECONDS = 300.0  # torchrun that looks its own name up ends after 522
TWO_RANKS = {"sagemaker_mpi_num_of_processes_per_host": 2}
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
HOROVOD = {"sagemaker_horovod_enabled": True}


def train_alone(image: Image, folder: Path, script: str, strategy: dict[str, object]) -> Path:
    """Run two ranks of a script in a container without a network and return its /opt/ml; nobody names the host."""
    opt_ml = lay_out(folder / "ml", SCRIPTS / script, hyperparameters={**strategy, **TWO_RANKS})
    (opt_ml / "input/config/resourceconfig.json").unlink()
    options = ("--network", "none", *CALM_OPTIONS, "--volume", f"{opt_ml}:/opt/ml")
    done = run_once(image.ref, "train", options=options, seconds=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    (opt_ml / "log").write_text(done.stdout)
    return opt_ml


@pytest.mark.when(framework="pytorch")
def test_torchrun_starts_its_ranks(image: Image, tmp_path: Path) -> None:
    log = (train_alone(image, tmp_path, "all_reduce.py", TORCHRUN) / "log").read_text()
    assert {f"rank {rank} of 2: 2" for rank in range(2)} <= {line.partition("] ")[2] for line in log.splitlines()}


def test_horovod_over_gloo_finds_its_ranks(image: Image, tmp_path: Path) -> None:
    """A host that does not find itself by its name ends by SIGSEGV in hvd.init()."""
    opt_ml = train_alone(image, tmp_path, "horovod_fit.py", HOROVOD)
    ranks = [json.loads(path.read_text()) for path in sorted((opt_ml / "output/data").glob("metrics-rank*.json"))]
    assert [(rank["rank"], rank["size"], rank["sum"]) for rank in ranks] == [(0, 2, 1), (1, 2, 1)]
