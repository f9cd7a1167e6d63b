"""Two hosts of which one fails: both end within a bound, and exit codes and failure files say what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
STRATEGY = {
    "pytorch": "sagemaker_torch_distributed_enabled",
    "tensorflow": "sagemaker_multi_worker_mirrored_strategy_enabled",
}


# The torchrun of PyTorch 1.10 stays until the other hosts' ranks have ended too, so none is the first for sure.
@pytest.mark.core
@pytest.mark.when(version=">=1.13")
def test_a_rank_that_fails_ends_the_other_host_too(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "fail_on_rank_one.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={STRATEGY[image.framework]: True}) as job:
        codes = job.wait()
        assert codes["algo-2"] == 3
        assert codes["algo-1"] != 0
        assert "channel training holds no parquet file" in job.failure("algo-2")
        assert "ChildFailedError" not in job.log("algo-1") + job.log("algo-2")  # 40 lines of torchrun's own


def test_a_host_that_fails_at_once_leaves_no_host_waiting_for_it(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "exit_three.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={STRATEGY[image.framework]: True}) as job:
        codes = job.wait()
        assert 3 in codes.values()
        assert 0 not in codes.values()
