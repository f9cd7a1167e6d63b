"""Two hosts train one model of TensorFlow: every rank ends with the same weights, so with the same loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

# PyTorch's is in test_torchrun_jobs.py.
STRATEGY = {"tensorflow": "sagemaker_multi_worker_mirrored_strategy_enabled"}


@pytest.mark.when(framework="tensorflow", python=">=3.10")  # the examples are for frameworks of today
def test_ranks_of_two_hosts_learn_together_and_agree_on_the_loss(image: Image, tmp_path: Path) -> None:
    script = find_root() / "examples" / image.framework / "train.py"
    hyperparameters = {STRATEGY[image.framework]: True, "epochs": 15}
    with Job(image, tmp_path, script, hosts=2, hyperparameters=hyperparameters) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        first, second = job.metrics()
        assert (first["rank"], second["rank"]) == (0, 1)
        assert first["world_size"] == second["world_size"] == 2
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
        assert min(first["accuracy"], second["accuracy"]) >= 0.95
        assert len(list((job.opt_ml("algo-1") / "model").iterdir())) == 1
        assert not list((job.opt_ml("algo-2") / "model").glob("*")), "only rank 0 writes the model"


# Not 2.6: a process of it has been seen to abort at its own end, as in tensorflow/tensorflow#55250.
@pytest.mark.when(framework="tensorflow", python=">=3.10")
@pytest.mark.parametrize("last", [0, 1])
def test_hosts_of_tensorflow_that_are_done_at_different_times_all_end_well(
    image: Image, tmp_path: Path, last: int
) -> None:
    script = Path(__file__).parent / "scripts" / "multi_worker_fit.py"
    hyperparameters = {STRATEGY["tensorflow"]: True, "last": last}
    with Job(image, tmp_path, script, hosts=2, hyperparameters=hyperparameters) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        for number, host in enumerate(job.hosts):
            assert f"task {number} of 2 has trained" in job.log(host)
