"""Training scripts as people have them in images of TensorFlow: what works here is a whole script, not an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.images import Image
from harness.sdk2 import ends_as_one, files
from harness.user_scripts import made_by, script_job

# Older ones hold packages of their time, which read other names.
pytestmark = [pytest.mark.integration, pytest.mark.when(framework="tensorflow", version=">=2.12")]

MULTI_WORKER = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}
HOROVOD = {"sagemaker_horovod_enabled": True}
MODEL_DIR = "s3://bucket/training-2026-11-22-04-30-00-123/model"  # the estimator always sends one


def test_keras_fit_learns_digits_of_two_channels_and_writes_curves(image: Image, tmp_path: Path) -> None:
    digits = made_by(image, "prepare_digits.py", tmp_path / "digits")
    channels = {name: digits / name for name in ("training", "evaluation")}
    settings = {"model_dir": MODEL_DIR, "epochs": 8, "learning_rate": 0.003}
    with script_job(image, tmp_path / "job", "keras_fit.py", hyperparameters=settings, channels=channels) as job:
        [rank] = ends_as_one(job)
        assert (rank["model_dir"], rank["unknown"]) == (MODEL_DIR, [])
        assert rank["accuracy"] > 0.8
        assert (job.opt_ml() / "model" / "00000001" / "saved_model.pb").is_file()
        assert "best.keras" in files(job, "output/data")
        [events] = (job.opt_ml() / "output/data/logs/own").glob("events.out.tfevents.*")
        assert b"final/accuracy" in events.read_bytes()
        assert list((job.opt_ml() / "output/data/logs/keras").rglob("events.out.tfevents.*"))


@pytest.mark.parametrize("hosts", [1, 2])
def test_keras_fit_trains_one_model_under_multi_worker_mirrored_strategy(
    image: Image, tmp_path: Path, hosts: int
) -> None:
    settings = {**MULTI_WORKER, "model_dir": MODEL_DIR, "epochs": 8}
    with script_job(image, tmp_path, "keras_multi_worker.py", hosts, hyperparameters=settings) as job:
        ranks = ends_as_one(job)
        assert ranks[0]["losses"] == pytest.approx(ranks[-1]["losses"]), "every worker saw the loss of all"
        assert ranks[0]["accuracy"] > 0.8
        assert "saved_model.pb" in files(job, "model")


def test_keras_fit_trains_one_model_with_horovod(image: Image, tmp_path: Path) -> None:
    with script_job(image, tmp_path, "keras_horovod.py", 2, hyperparameters=HOROVOD) as job:
        ranks = ends_as_one(job)
        assert ranks[0]["losses"] == pytest.approx(ranks[1]["losses"], rel=1e-4), "metrics are averaged"
        assert ranks[0]["losses"][-1] < ranks[0]["losses"][0] / 1.5
        assert "checkpoint-4.h5" in files(job, "model")


def test_a_gradient_tape_of_horovod_trains_a_keras_model(image: Image, tmp_path: Path) -> None:
    with script_job(image, tmp_path, "keras_horovod_tape.py", 2, hyperparameters=HOROVOD) as job:
        ranks = ends_as_one(job)
        assert ranks[0]["loss"] < 1.5


def test_a_bert_of_transformers_trains_compiled_by_xla(image: Image, tmp_path: Path) -> None:
    settings = {"epochs": 8, "learning_rate": 0.001, "jit_compile": True}
    talkative = {"TF_CPP_MIN_LOG_LEVEL": "0"}  # TensorFlow says what it compiles at this level only
    with script_job(image, tmp_path, "bert.py", hyperparameters=settings, environment=talkative) as job:
        [rank] = ends_as_one(job)
        assert rank["accuracy"] > 0.9
        assert "Compiled cluster using XLA" in job.log()
        assert {"tf_model.h5", "config.json", "vocab.txt"} <= files(job, "model")
