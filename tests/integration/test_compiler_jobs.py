"""Jobs that ask for the compiler: unchanged scripts train the same model, and the report says what was compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = SCRIPTS / "compile_me.py"
GLOO, MPI = {"sagemaker_horovod_enabled": True}, {"sagemaker_mpi_enabled": True}
ENABLED = {"sagemaker_training_compiler_enabled": True}
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
LOSS, WEIGHT = 1e-5, 1e-5  # single precision, SGD
SECONDS = 600.0  # compiling on few cores
CACHE = {"DLC_COMPILE_CACHE": "/opt/ml/checkpoints/compiled"}
# Five eager steps; one that compiles and one that does not; six pairs of blocks of at most ten steps, and a step left
# out at each of seven turns.
DECIDED = 5 + 2 + 12 * 10 + 7


def inductor(image: Image) -> dict[str, str]:
    """Compiles without measuring first, so that each run compiles the same."""
    return {"DLC_COMPILER_MODE": "default", **not_xla(image)}


def not_xla(image: Image) -> dict[str, str]:
    """An image whose own compiler is XLA is asked for inductor; all others have it from their buildspec."""
    return {"DLC_COMPILER": "inductor"} if "torch-xla" in image.python_packages else {}


def report_of(job: Job, host: str = "algo-1") -> dict[str, Any]:
    path = job.opt_ml(host) / "output/data/compiler/report.json"
    assert path.exists()
    return dict(json.loads(path.read_text()))


def same_model(eager: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=LOSS)
    assert compiled["weights"].keys() == eager["weights"].keys()
    for name, values in eager["weights"].items():
        assert compiled["weights"][name] == pytest.approx(values, abs=WEIGHT), name


@pytest.mark.core
@pytest.mark.when(framework="pytorch", version=">=2.2")
def test_an_unchanged_script_trains_the_same_model_compiled(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path / "eager", SCRIPT) as job:
        assert job.wait(SECONDS) == {"algo-1": 0}
        [eager] = job.metrics()
        assert not (job.opt_ml() / "output/data/compiler").exists()
    with Job(image, tmp_path / "compiled", SCRIPT, hyperparameters=ENABLED, environment=inductor(image)) as job:
        assert_compiled(job)
        same_model(eager, job.metrics()[0])


@pytest.mark.when(framework="pytorch", version=">=2.5")  # whose cache of whole graphs is on
def test_the_next_job_finds_what_was_compiled(image: Image, tmp_path: Path) -> None:
    first, second = with_cache(image, tmp_path / "first"), with_cache(image, tmp_path / "second")
    with first as job:
        assert_compiled(job)
        assert report_of(job)["cache_hits"] == 0
    (first.opt_ml() / "checkpoints").rename(second.opt_ml() / "checkpoints")
    with second as job:
        assert_compiled(job)
        same_model(first.metrics()[0], job.metrics()[0])
        report = report_of(job)
        assert report["cache_hits"] > 0
        assert report["cache_misses"] == 0


def with_cache(image: Image, folder: Path) -> Job:
    """A job that asks for the compiler and keeps what it compiles beside its checkpoints."""
    return Job(image, folder, SCRIPT, hyperparameters=ENABLED, environment={**CACHE, **inductor(image)})


def assert_compiled(job: Job) -> None:
    """It ends well, and the model ran compiled from the first step to the last."""
    assert job.wait(SECONDS) == {"algo-1": 0}
    report = report_of(job)
    assert {graph["function"] for graph in report["graphs"]} == {"Model"}
    assert [(rank["state"], rank["backend"]) for rank in report["ranks"]] == [("ended", "inductor")]
    assert report["steps"]["count"] == 30
    assert report["fallbacks"] == report["eager"] == report["recompilations"] == []
    assert "dlc compiler: Compiled Model: " in job.log()


@pytest.mark.when(framework="pytorch", version=">=2.2")
def test_ddp_over_two_hosts_trains_the_same_model_compiled(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path / "eager", SCRIPT, hosts=2, hyperparameters=TORCHRUN) as job:
        assert job.wait(SECONDS) == {"algo-1": 0, "algo-2": 0}
        eager = job.metrics()
    asked = {"hyperparameters": {**TORCHRUN, **ENABLED}, "environment": inductor(image)}
    with Job(image, tmp_path / "compiled", SCRIPT, hosts=2, **asked) as job:
        assert job.wait(SECONDS) == {"algo-1": 0, "algo-2": 0}
        compiled = job.metrics()
        assert [rank["world_size"] for rank in compiled] == [2, 2]
        for one, other in zip(eager, compiled, strict=True):
            same_model(one, other)
        assert compiled[0]["weights"] == compiled[1]["weights"]
        for number, host in enumerate(job.hosts):
            report = report_of(job, host)
            assert [(rank["rank"], rank["state"]) for rank in report["ranks"]] == [(number, "ended")]
            assert "Model" in {graph["function"] for graph in report["graphs"]}
            assert report["fallbacks"] == []


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.2")
@pytest.mark.parametrize("strategy", [GLOO, MPI], ids=["gloo", "mpi"])
def test_horovod_over_two_hosts_trains_the_same_model_compiled(
    image: Image, tmp_path: Path, strategy: dict[str, object]
) -> None:
    script = SCRIPTS / "horovod_fit.py"
    found = []
    for name, asked in (("eager", {}), ("compiled", ENABLED)):
        words = {"hyperparameters": {**strategy, **asked}, "environment": inductor(image) if asked else {}}
        with Job(image, tmp_path / name, script, hosts=2, **words) as job:
            assert job.wait(SECONDS) == {"algo-1": 0, "algo-2": 0}
            found.append(job.metrics())
            reports = [report_of(job, host) for host in job.hosts] if asked else []
    for eager, compiled in zip(*found, strict=True):
        assert compiled["losses"] == pytest.approx(eager["losses"], rel=LOSS, abs=LOSS)
        assert compiled["weights"] == pytest.approx(eager["weights"], abs=WEIGHT)
    assert [graph["function"] for report in reports for graph in report["graphs"]] == ["Linear", "Linear"]
    assert [rank["rank"] for report in reports for rank in report["ranks"]] == [0, 1]


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.5")
@pytest.mark.parametrize("strategy", [TORCHRUN, GLOO], ids=["torchrun", "horovod"])
def test_what_is_slower_on_one_of_two_hosts_is_left_by_both_at_the_same_step_and_not_tried_by_the_next_job(
    image: Image, tmp_path: Path, strategy: dict[str, object]
) -> None:
    def job_of(name: str, steps: int) -> Job:
        asked = {**strategy, **ENABLED, "steps": steps}
        environment = {**CACHE, **not_xla(image)}
        script = SCRIPTS / "choose_way.py"
        return Job(image, tmp_path / name, script, hosts=2, hyperparameters=asked, environment=environment)

    first, second = job_of("first", DECIDED + 20), job_of("second", 20)
    with first as job:
        choices = [choice(job, host) for host in trained(job)]
        assert [(found["way"], found["kept"]) for found in choices] == [("eager", False)] * 2
        assert choices[0]["from_step"] == choices[1]["from_step"] <= DECIDED + 1
        assert [found["candidates"][1]["outcome"] for found in choices] == ["left: slower"] * 2
    for host in first.hosts:
        (first.opt_ml(host) / "checkpoints").rename(second.opt_ml(host) / "checkpoints")
    with second as job:
        for host in trained(job):
            found = choice(job, host)
            assert (found["way"], found["kept"], found["from_step"]) == ("eager", True, 6)
            assert report_of(job, host)["graphs"] == report_of(job, host)["modules"] == []


def trained(job: Job) -> list[str]:
    """Its hosts, which have ended well with one model."""
    assert job.wait(SECONDS) == {"algo-1": 0, "algo-2": 0}
    one, other = job.metrics()
    assert one["weights"] == other["weights"]
    return job.hosts


def choice(job: Job, host: str) -> dict[str, Any]:
    """What a host's rank chose, and its table of ways."""
    report = report_of(job, host)
    return {**report["choosing"], "candidates": report["ways"]}


@pytest.mark.when(framework="pytorch", version=">=2.0")
def test_xla_in_an_image_without_it_is_refused_with_what_works(image: Image, tmp_path: Path) -> None:
    if "torch-xla" in image.python_packages:
        pytest.skip("this image has torch_xla")
    with Job(image, tmp_path, SCRIPT, environment={"DLC_COMPILER": "xla"}) as job:
        assert job.wait() == {"algo-1": 78}
        assert "set DLC_COMPILER=inductor" in job.failure()
        assert job.metrics() == []


@pytest.mark.when(framework="pytorch", version="<2.0")
def test_a_pytorch_before_torch_compile_is_refused(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPT, environment={"DLC_COMPILER": "inductor"}) as job:
        assert job.wait() == {"algo-1": 78}
        assert "take an image with PyTorch 2.3 or newer" in job.failure()
