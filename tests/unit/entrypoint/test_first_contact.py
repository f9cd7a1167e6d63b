"""What a new user's first job meets: a host without a name, and one of two Keras."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.job_folder import HOROVOD, MPI, JobFolder, hosts


def test_a_host_that_nobody_named_is_reached_as_localhost(tmp_path: Path) -> None:
    alone = JobFolder(tmp_path / "ml").code().hyperparameters()
    assert alone.explain()["env"]["MASTER_ADDR"] == "localhost"  # "algo-1" resolves nowhere
    named = alone.config("resourceconfig", hosts("algo-1"))
    assert named.explain()["env"]["MASTER_ADDR"] == "algo-1"


@pytest.mark.parametrize("platform", [{"PET_NNODES": "1"}, {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "job-0"}])
def test_the_only_host_of_kubeflow_is_reached_as_localhost_by_what_the_launcher_starts(
    tmp_path: Path, platform: dict[str, str]
) -> None:
    job = JobFolder(tmp_path / "ml").code().hyperparameters(**MPI).env(**platform)
    argv = job.process()["argv"]
    assert argv[argv.index("--host") + 1] == "localhost"


def test_tensorflow_on_a_host_that_nobody_named_listens_on_localhost(tmp_path: Path) -> None:
    alone = JobFolder(tmp_path / "ml").code()
    alone.hyperparameters(sagemaker_multi_worker_mirrored_strategy_enabled=True)
    assert json.loads(alone.process()["env"]["TF_CONFIG"])["cluster"] == {"worker": ["localhost:8890"]}


MWMS = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}


@pytest.fixture
def tensorflow(tmp_path: Path) -> JobFolder:
    """A job in an image whose TensorFlow has two Keras."""
    return JobFolder(tmp_path / "ml").code().hyperparameters().env(DLC_VENV=venv_of(tmp_path, "2.21.0"))


def venv_of(folder: Path, version: str) -> str:
    for library in ("tensorflow", "tf_keras", "horovod", f"tensorflow_cpu-{version}.dist-info"):
        (folder / "venv/lib/python3.11/site-packages" / library).mkdir(parents=True, exist_ok=True)
    return str(folder / "venv")


def keras_of(job: JobFolder) -> tuple[str | None, str]:
    """What processes find in the variable, and what is said of it."""
    found = job.explain()
    said = [f"{each['what']}: {each['why']}" for each in found["decisions"] if "Keras" in each["what"]]
    return found["processes"][-1]["env"].get("TF_USE_LEGACY_KERAS"), "; ".join(said)


@pytest.mark.parametrize(
    ("script", "value", "why"),
    [
        ("import tensorflow as tf\nfrom tensorflow import keras", "1", "no script imports keras"),
        ("import os, keras\nimport tensorflow as tf", "0", "train.py imports keras"),
        ("try:\n    from keras.layers import Dense\nexcept ImportError: pass", "0", "train.py imports keras"),
        ("import tensorflow.keras as keras, my_keras\nfrom keras_tuner import Tuner", "1", "no script imports keras"),
        ("from transformers import TFBertModel\nimport keras", "1", "train.py imports TensorFlow models of transf"),
        ("from transformers import AutoTokenizer\nimport keras", "0", "train.py imports keras"),
        ("import models.dense", "0", "models/dense.py imports keras"),
        ("from models import (\n    dense)", "0", "models/dense.py imports keras"),
        ("from models import dense as d", "0", "models/dense.py imports keras"),
        ("from models.top import build", "0", "models/dense.py imports keras"),
    ],
)
def test_which_keras_a_script_gets_follows_from_what_it_and_its_modules_import(
    tensorflow: JobFolder, script: str, value: str, why: str
) -> None:
    job = tensorflow.code(text=script)
    models = job.base / "code/models"
    models.mkdir()
    (models / "__init__.py").touch()
    (models / "dense.py").write_text("import keras\nfrom . import top\n")
    (models / "top.py").write_text("from .dense import Dense\n")
    (job.base / "code/other.py").write_text("import keras\n")  # nothing imports it
    found, said = keras_of(job)
    assert found == value
    assert said.startswith(f"tf.keras is Keras {2 if value == '1' else 3}, TF_USE_LEGACY_KERAS={value}: {why}")


@pytest.mark.parametrize("stated", ["0", "1"])
def test_which_keras_the_user_set_stays(tensorflow: JobFolder, stated: str) -> None:
    job = tensorflow.code(text="import keras").env(TF_USE_LEGACY_KERAS=stated)
    found, said = keras_of(job)
    assert found in (None, stated)  # --explain shows what the launcher adds
    assert f"TF_USE_LEGACY_KERAS={stated}: the user's setting" in said


def test_a_tensorflow_that_has_one_keras_is_left_alone(tensorflow: JobFolder, tmp_path: Path) -> None:
    (tmp_path / "venv/lib/python3.11/site-packages/tensorflow_cpu-2.21.0.dist-info").rmdir()
    venv_of(tmp_path, "2.15.1")
    assert keras_of(tensorflow.code(text="import keras")) == (None, "")


def test_keras_3_below_a_strategy_that_it_fails_under_is_said_before_it_does(tensorflow: JobFolder) -> None:
    job = tensorflow.code(text="import keras")

    def warns() -> bool:
        return "warning: Keras 3 fails below Horovod" in keras_of(job)[1]

    assert warns() is False
    job.hyperparameters(**HOROVOD)
    assert warns()
    job.hyperparameters(**MWMS)
    assert warns()
    job.code(text="import tensorflow.keras")
    assert warns() is False
