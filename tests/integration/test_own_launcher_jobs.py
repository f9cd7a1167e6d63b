"""A job with two groups whose own launcher starts each group's program and ends the data hosts runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.dlc_run import DlcRun
from harness.images import Image

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SOURCE = find_root() / "tests/scripts/own_groups"
GROUPS = ("--group", "data_group=2", "--group", "dnn_group=1")
MPI = (
    *("--hp", "sagemaker_mpi_enabled=true", "--hp", "sagemaker_mpi_num_of_processes_per_host=1"),
    *("--hp", 'sagemaker_distribution_instance_groups=["dnn_group"]'),
)


def words(image: Image, *more: str) -> tuple[str, ...]:
    return ("--source", str(SOURCE), *GROUPS, *more, image.ref, "launcher.py")


@pytest.mark.parametrize("distribution", [(), MPI], ids=["plain", "mpi"])
def test_the_jobs_own_launcher_starts_both_groups_and_ends_them(
    image: Image, tmp_path: Path, distribution: tuple[str, ...]
) -> None:
    with DlcRun(tmp_path / "run", *words(image, "--hp", "steps=60", *distribution), cache=tmp_path / "cache") as run:
        assert run.wait() == 0
        assert "algo-1 0, algo-2 0, algo-3 0" in run.output
        metrics = json.loads((run.results / "output/metrics-rank0.json").read_text())
        assert metrics["given"] == {"algo-1": 20, "algo-2": 20, "algo-3": 20}
        assert metrics["weights"] == pytest.approx([1, 2, 3, 4], abs=0.1)
        assert (run.results / "model/weights.npy").exists()
        for host in ("algo-1", "algo-2"):
            assert f"[{host}] told to end by" in run.output


def test_a_training_that_fails_has_its_exit_code_and_ends_the_data_hosts(image: Image, tmp_path: Path) -> None:
    with DlcRun(tmp_path / "run", *words(image, "--hp", "exit_code=3"), cache=tmp_path / "cache") as run:
        assert run.wait() == 3
        assert "algo-3 3" in run.output
