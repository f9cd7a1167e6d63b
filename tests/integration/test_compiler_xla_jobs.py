"""Jobs that PyTorch/XLA compiles, on CPU devices: the same model as without XLA, and what the report says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch", packages={"torch-xla": ">=2"})]

SCRIPTS = Path(__file__).parent / "scripts"
ENABLED = {"sagemaker_training_compiler_enabled": True}
DEBUG = {**ENABLED, "sagemaker_training_compiler_debug_mode": True}
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
DEVICES = {"sagemaker_pytorch_xla_multi_worker_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 4}
LOSS, SGD, ADAMW = 1e-5, 1e-5, 1e-4  # single precision: losses relative, weights absolute
SECONDS = 600.0  # compiling on few cores


def report_of(job: Job) -> dict[str, Any]:
    path = job.opt_ml() / "output/data/compiler/report.json"
    assert path.exists()
    return dict(json.loads(path.read_text()))


def trained(image: Image, folder: Path, script: str, **others: Any) -> tuple[dict[str, Any], Job]:
    """What the script wrote, and the job, which has ended."""
    with Job(image, folder, SCRIPTS / script, **others) as job:
        assert job.wait(SECONDS) == {"algo-1": 0}
        [metrics] = job.metrics()
        return metrics, job


def same_model(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> None:
    assert other["losses"] == pytest.approx(one["losses"], rel=LOSS, abs=LOSS)
    assert other["losses"][-1] < 0.95 * other["losses"][0]
    assert other["weights"].keys() == one["weights"].keys()
    for name, values in one["weights"].items():
        assert other["weights"][name] == pytest.approx(values, abs=tolerance), name


def compiled_once(report: dict[str, Any], device: str) -> None:
    """All of it ran on XLA devices, and nothing was compiled again."""
    ranks = [(rank["backend"], rank["device"], rank["state"]) for rank in report["ranks"]]
    assert ranks == [("xla", device, "ended")]
    assert report["graphs"]
    assert report["steps"]["after"]["steps"] > 0
    assert report["recompilations"] == report["eager"] == report["fallbacks"] == report["warnings"] == []


def test_the_trainer_as_it_comes_trains_the_same_model_compiled(image: Image, tmp_path: Path) -> None:
    """The compiler moves it to XLA's device, where its default optimizer, a fused one, cannot run."""
    eager, _ = trained(image, tmp_path / "eager", "xla_trainer.py")
    compiled, job = trained(image, tmp_path / "compiled", "xla_trainer.py", hyperparameters=ENABLED)
    assert (eager["device"], compiled["device"]) == ("cpu", "xla:0")
    same_model(eager, compiled, ADAMW)
    assert eager["checkpoints"] == compiled["checkpoints"] == ["checkpoint-12", "checkpoint-24"]
    report = report_of(job)
    compiled_once(report, "CPU")
    assert report["steps"]["count"] == 24
    assert [note for note in report["notes"] if note.startswith("XLA has no fused AdamW")]


def test_sharded_over_four_devices_a_transformer_is_the_same_model(image: Image, tmp_path: Path) -> None:
    eager, _ = trained(image, tmp_path / "eager", "xla_sharded.py", hyperparameters={"device": "cpu"})
    compiled, job = trained(image, tmp_path / "compiled", "xla_sharded.py", hyperparameters={**DEVICES, **DEBUG})
    same_model(eager, compiled, SGD)
    assert ["devices=[2,1,2]" in sharding for sharding in compiled["shardings"]] == [True, True]
    report = report_of(job)
    compiled_once(report, "CPU, 4 devices")
    assert {Path(graph["file"]).name for graph in report["graphs"]} == {"xla_sharded.py"}
    dumps = job.opt_ml() / "output/data/compiler/debug"
    assert "xla_sharded.py" in (dumps / "pt_xla.txt").read_text()
    assert list((dumps / "hlo").glob("*.txt"))
    [counters] = dumps.glob("metrics-rank-0-*.txt")
    assert "UncachedCompile" in counters.read_text()


def test_the_devices_of_mp_fn_train_the_model_of_one_process_with_all_their_data(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "xla_mp_fn.py", hyperparameters={**DEVICES, **ENABLED}) as job:
        assert job.wait(SECONDS) == {"algo-1": 0}
        ranks = job.metrics()
        report = report_of(job)
    assert [rank["world_size"] for rank in ranks] == [4] * 4
    losses, weights = fitted(len(ranks[0]["losses"]))
    together = [sum(step) / 4 for step in zip(*(rank["losses"] for rank in ranks), strict=True)]
    assert together == pytest.approx(losses, rel=LOSS, abs=LOSS)
    for rank in ranks:
        assert rank["weights"] == pytest.approx(weights, abs=SGD)
    compiled_once(report, "CPU, 4 devices")
    assert report["steps"]["count"] == 100


def fitted(steps: int) -> tuple[list[float], list[float]]:
    """What xla_mp_fn.py computes, on the points of all four devices, without a framework."""
    points = [-1 + 2 * number / 31 + 0.1 * device for device in range(4) for number in range(32)]
    slope = offset = 0.0
    losses = []
    for _ in range(steps):
        errors = [slope * x + offset - (3 * x - 2) for x in points]
        losses.append(sum(error**2 for error in errors) / len(points))
        slope -= 0.1 * 2 * sum(error * x for error, x in zip(errors, points, strict=True)) / len(points)
        offset -= 0.1 * 2 * sum(errors) / len(points)
    return losses, [slope, offset]


def test_two_hosts_of_xla_on_cpus_are_refused(image: Image, tmp_path: Path) -> None:
    """Each would train a model of its own."""
    asked = {"DLC_COMPILER": "xla"}
    with Job(image, tmp_path, SCRIPTS / "compile_me.py", hosts=2, hyperparameters=TORCHRUN, environment=asked) as job:
        assert job.wait() == {"algo-1": 78, "algo-2": 78}
        assert "found 2 processes" in job.failure()
