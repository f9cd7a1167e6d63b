"""One host: `docker run IMAGE train` with a mounted /opt/ml trains, fails and stops as the contract says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
SIGTERM = 15


def example(image: Image) -> Path:
    """The example training script of the image's framework."""
    return find_root() / "examples" / image.framework / "train.py"


@pytest.mark.when(python=">=3.10", version=">=2.0")  # the examples are for frameworks of today
def test_the_example_learns_digits_and_leaves_a_model(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, example(image)) as job:
        assert job.wait() == {"algo-1": 0}
        [metrics] = job.metrics()
        assert metrics["accuracy"] >= 0.95
        assert [file.stem for file in (job.opt_ml() / "model").iterdir()] == ["model"]
        assert job.failure() == ""


def test_hyperparameters_and_channels_reach_the_script(image: Image, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "one.txt").write_text("1")
    values = {"learning-rate": 0.1, "name": 'it\'s a "test"', "flag": True}
    script = SCRIPTS / "show_environment.py"
    with Job(image, tmp_path, script, hyperparameters=values, channels={"training": data}) as job:
        assert job.wait() == {"algo-1": 0}
        started = json.loads((job.opt_ml() / "output/data/started.json").read_text())
    assert started["argv"] == ["--flag", "True", "--learning-rate", "0.1", "--name", 'it\'s a "test"']
    environment = started["environment"]
    assert environment["SM_CHANNEL_TRAINING"] == "/opt/ml/input/data/training"
    assert environment["SM_HP_LEARNING-RATE"] == "0.1"
    assert environment["SM_MODEL_DIR"] == "/opt/ml/model"
    assert json.loads(environment["SM_HOSTS"]) == ["algo-1"]
    assert started["cwd"] == "/opt/ml/code"
    assert started["python"] == "/opt/venv/bin/python"


@pytest.mark.core
def test_a_script_that_exits_3_gives_3_and_a_failure_file_with_its_last_words(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "exit_three.py") as job:
        assert job.wait() == {"algo-1": 3}
        reason = job.failure()[:1024]  # what the platform shows
    assert "3" in reason
    assert "channel training holds no parquet file" in reason


@pytest.mark.core
def test_docker_stop_reaches_the_script_which_can_save(image: Image, tmp_path: Path) -> None:
    environment = {"DLC_TERMINATION_GRACE": "120"}
    with Job(image, tmp_path, SCRIPTS / "save_on_sigterm.py", environment=environment) as job:
        job.wait_for_line("ready to be stopped")
        job.stop(grace=120)
        assert (job.opt_ml() / "model" / "saved-on-signal").read_text() == str(SIGTERM)
        assert job.wait() == {"algo-1": 0}


@pytest.mark.when(python=">=3.10", version=">=2.0")  # the examples are for frameworks of today
def test_a_stopped_example_goes_on_from_its_checkpoint(image: Image, tmp_path: Path) -> None:
    environment = {"TRAINING_JOB_NAME": "spot"}  # the platform's 120 s: it saves after the running epoch
    first = Job(image, tmp_path / "first", example(image), hyperparameters={"epochs": 100_000}, environment=environment)
    with first as job:
        job.wait_for_line("epoch=2 ")
        job.stop(grace=120)
        assert job.wait() == {"algo-1": 128 + SIGTERM}
        assert "saved /opt/ml/checkpoints/" in job.log()
        checkpoints = job.opt_ml() / "checkpoints"
        epochs = len(re.findall("^epoch=", job.log(), re.MULTILINE))
    again = Job(image, tmp_path / "second", example(image), hyperparameters={"epochs": epochs + 1})
    checkpoints.rename(again.opt_ml() / "checkpoints")
    with again as job:
        assert job.wait() == {"algo-1": 0}
        assert f"continuing after epoch {epochs} " in job.log()


@pytest.mark.core
def test_a_program_that_is_not_there_is_named_with_what_is(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "exit_three.py", program="missing.py") as job:
        [code] = job.wait().values()
        assert 64 <= code <= 78
        assert "missing.py" in job.failure()
        assert "exit_three.py" in job.failure()
