"""TensorFlow jobs that ask for the compiler: an unchanged script trains the same model, and the report says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="tensorflow")]

SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = SCRIPTS / "compile_keras.py"
ENABLED = {"sagemaker_training_compiler_enabled": True}
SECONDS = 300.0
# Five steps without XLA; one that compiles and one that does not; six pairs of blocks of at most ten steps, and a step
# left out at each of seven turns.
DECIDED = 5 + 2 + 12 * 10 + 7


def trained(image: Image, folder: Path, **hyperparameters: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the script saw, and the compiler's report, empty where there is none."""
    at_once = {"DLC_COMPILER_MODE": "default"}  # compiles without measuring first, so that each run compiles the same
    with Job(image, folder, SCRIPT, hyperparameters=hyperparameters, environment=at_once) as job:
        assert job.wait(SECONDS) == {"algo-1": 0}
        report = job.opt_ml() / "output/data/compiler/report.json"
        [metrics] = job.metrics()
        return metrics, json.loads(report.read_text()) if report.exists() else {}


def test_an_unchanged_keras_script_trains_the_same_model_compiled(image: Image, tmp_path: Path) -> None:
    plain, nothing = trained(image, tmp_path / "plain")
    compiled, report = trained(image, tmp_path / "compiled", **ENABLED)
    assert nothing == {}
    assert len(plain["losses"]) == 32
    assert compiled["losses"] == pytest.approx(plain["losses"], rel=1e-5, abs=1e-6)
    assert compiled["weights"] == pytest.approx(plain["weights"], abs=1e-5)
    assert [(rank["state"], rank["backend"]) for rank in report["ranks"]] == [("ended", "xla")]
    assert report["steps"]["count"] == 32
    assert [entry["module"] for entry in report["modules"]] == ["sequential"]
    assert report["fallbacks"] == report["eager"] == []


@pytest.mark.long
def test_horovod_over_two_hosts_leaves_what_is_slower_with_xla_on_one_at_the_same_step(
    image: Image, tmp_path: Path
) -> None:
    asked = {"sagemaker_horovod_enabled": True, **ENABLED, "steps": DECIDED + 20}
    with Job(image, tmp_path, SCRIPTS / "choose_xla.py", hosts=2, hyperparameters=asked) as job:
        assert job.wait(SECONDS) == {"algo-1": 0, "algo-2": 0}
        one, other = job.metrics()
        assert one["weights"] == pytest.approx(other["weights"], abs=1e-6)
        reports = [
            json.loads((job.opt_ml(host) / "output/data/compiler/report.json").read_text()) for host in job.hosts
        ]
    assert [report["choosing"]["way"] for report in reports] == ["eager"] * 2
    first, second = (report["choosing"]["from_step"] for report in reports)
    assert first == second <= DECIDED + 1
    assert [report["ways"][1]["outcome"] for report in reports] == ["left: slower"] * 2


def test_inductor_in_a_tensorflow_image_is_refused_with_what_works(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPT, environment={"DLC_COMPILER": "inductor"}) as job:
        assert job.wait() == {"algo-1": 78}
        assert "set DLC_COMPILER=xla" in job.failure()
        assert job.metrics() == []
