"""Training scripts as people have them in images of PyTorch: what works here is a whole script, not an import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import user_scripts
from harness.images import Image
from harness.job import Job
from harness.sdk2 import ends_as_one, files

# Older ones hold packages of their time, which read other names.
pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch", version=">=1.13")]

# Scripts for an argument of transformers 5, or for a TensorBoard writer that takes the NumPy of today.
NEWER = pytest.mark.when(framework="pytorch", version=">=2.6")
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
HOROVOD = {"sagemaker_horovod_enabled": True}
# Most of what one host shows, two hosts show as well.
ALONE = pytest.param(1, marks=pytest.mark.long)


def script_job(image: Image, folder: Path, entry_point: str, hosts: int = 1, **options: Any) -> Job:
    """A job over one of the scripts; on several hosts it asks for torchrun unless its hyperparameters say otherwise."""
    options["hyperparameters"] = {**(TORCHRUN if hosts > 1 else {}), **options.get("hyperparameters", {})}
    return user_scripts.script_job(image, folder, entry_point, hosts, **options)


@pytest.mark.parametrize("hosts", [ALONE, 2])
def test_trainer_learns_to_classify_texts(image: Image, tmp_path: Path, hosts: int) -> None:
    settings = {"epochs": 4, "train_batch_size": 16, "model_name": "bert 'tiny', \"uncased\"", "learning_rate": 2e-3}
    with script_job(image, tmp_path, "text_classification.py", hosts, hyperparameters=settings) as job:
        ranks = ends_as_one(job)
        assert ranks[0]["steps"] == 4 * -(-400 // (16 * hosts)), "the hosts share the batches"
        assert ranks[0]["accuracy"] > 0.9
        assert {rank["device"].partition(":")[0] for rank in ranks} == {"cpu"}
        assert ranks[0]["model_name"] == settings["model_name"]
        assert {"config.json", "model.safetensors", "tokenizer.json", "training_args.bin"} <= files(job, "model")
        assert any(name.startswith("events.out.tfevents") for name in files(job, "model/runs"))
        assert "eval_accuracy" in (job.opt_ml() / "output/data/eval_results.txt").read_text()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A channel of plain text."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "train.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 200)
    (folder / "valid.txt").write_text("the dog sat on the mat and the cat sat on the log\n" * 40)
    return folder


@pytest.mark.parametrize("hosts", [ALONE, 2])
def test_a_language_model_trains_from_settings_that_hfargumentparser_reads(
    image: Image, tmp_path: Path, texts: Path, hosts: int
) -> None:
    if hosts > 1 and image.variant.header.version.startswith("1."):
        pytest.skip("GPT-2 of transformers has buffers of booleans, and gloo of PyTorch 1 sends none")
    settings = {
        "model_type": "gpt2",
        "config_overrides": "n_embd=32,n_head=2,n_layer=2,n_positions=64",
        "train_file": "/opt/ml/input/data/train/train.txt",
        "validation_file": "/opt/ml/input/data/train/valid.txt",
        "do_train": True,
        "do_eval": True,
        "output_dir": "/opt/ml/model",
        "max_steps": 20,
        "learning_rate": 0.005,
        "per_device_train_batch_size": 8,
        "preprocessing_num_workers": 2,
        "report_to": "none",
        "run_name": "a name with spaces",
    }
    channels = {"train": texts}
    with script_job(image, tmp_path / "job", "run_clm.py", hosts, hyperparameters=settings, channels=channels) as job:
        ranks = ends_as_one(job)
        assert {(rank["steps"], rank["run_name"]) for rank in ranks} == {(20, "a name with spaces")}
        assert {rank["device"].partition(":")[0] for rank in ranks} == {"cpu"}
        assert ranks[0]["perplexity"] < 20
        assert {"model.safetensors", "train_results.json", "eval_results.json"} <= files(job, "model")


@NEWER
def test_pretraining_goes_on_from_the_checkpoint_that_the_platform_kept(image: Image, tmp_path: Path) -> None:
    settings = {"max-steps": 10, "learning-rate": 3e-3, "gradient-checkpointing": True}
    with script_job(image, tmp_path / "first", "run_mlm.py", hyperparameters=settings) as job:
        [first] = ends_as_one(job)
        assert (first["steps"], first["continued"]) == (10, False)
        checkpoints = job.opt_ml() / "checkpoints"
        assert "checkpoint-10" in {path.name for path in checkpoints.iterdir()}
    again = script_job(image, tmp_path / "again", "run_mlm.py", hyperparameters={**settings, "max-steps": 20})
    checkpoints.rename(again.opt_ml() / "checkpoints")
    with again as job:
        [second] = ends_as_one(job)
        assert (second["steps"], second["continued"]) == (20, True)
        assert second["losses"][-1] < first["losses"][0]


@NEWER
def test_masked_words_are_learnt_by_two_hosts_as_one(image: Image, tmp_path: Path) -> None:
    with script_job(image, tmp_path, "run_mlm.py", 2, hyperparameters={"max-steps": 10}) as job:
        ranks = ends_as_one(job)
        assert {rank["steps"] for rank in ranks} == {10}


@pytest.mark.parametrize("hosts", [ALONE, 2])
def test_a_loop_under_accelerate_learns_digits(image: Image, tmp_path: Path, hosts: int) -> None:
    with script_job(image, tmp_path, "accelerate_loop.py", hosts, hyperparameters={"b": 16, "epochs": 6}) as job:
        ranks = ends_as_one(job)
        assert {rank["seen"] for rank in ranks} == {397}, "the hosts share the held-out set"
        assert {rank["device"].partition(":")[0] for rank in ranks} == {"cpu"}
        assert ranks[0]["accuracy"] > 0.8
        assert files(job, "model") == {"model.pt"}


@pytest.mark.parametrize("hosts", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_script_that_spawns_its_own_ranks_finds_the_first_host(image: Image, tmp_path: Path, hosts: int) -> None:
    nothing = {"sagemaker_torch_distributed_enabled": False}
    with script_job(image, tmp_path, "own_ranks.py", hosts, hyperparameters=nothing) as job:
        ends_as_one(job, per_host=2)
        assert "no distribution was asked for" in job.log()


@NEWER
def test_tables_of_two_channels_are_read_and_curves_are_written(image: Image, tmp_path: Path) -> None:
    tables = user_scripts.made_by(image, "prepare_tables.py", tmp_path / "tables")
    channels = {name: tables / name for name in ("train", "validation")}
    settings = {"features": "age,income,visits,distance", "title": "50% off -- ünïcode & $HOME `date`"}
    with script_job(image, tmp_path / "job", "train_on_tables.py", hyperparameters=settings, channels=channels) as job:
        [rank] = ends_as_one(job)
        assert rank["rows"] == [600, 200]
        assert rank["cities"] == ["Nairobi, KE", "Oslo", "São Paulo"]
        assert rank["accuracy"] > 0.9
        assert rank["title"] == settings["title"]
        [events] = (job.opt_ml() / "output" / "tensorboard").glob("events.out.tfevents.*")
        assert b"loss/train" in events.read_bytes()


@pytest.fixture
def torchvision(image: Image) -> None:
    if "torchvision" not in image.python_packages:
        pytest.skip("the image has no torchvision: no index has one for its PyTorch")


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_resnet_trains_with_distributed_data_parallel(image: Image, tmp_path: Path, hosts: int) -> None:
    with script_job(image, tmp_path, "resnet_ddp.py", hosts) as job:
        ranks = ends_as_one(job)
        assert {rank["images"] for rank in ranks} == {64 // hosts}
        assert files(job, "model") == {"model.pth"}


@pytest.mark.usefixtures("torchvision")
def test_a_resnet_trains_with_horovod(image: Image, tmp_path: Path) -> None:
    settings = {**HOROVOD, "sagemaker_torch_distributed_enabled": False, "fp16-allreduce": True}
    with script_job(image, tmp_path, "resnet_horovod.py", 2, hyperparameters=settings) as job:
        ranks = ends_as_one(job)
        assert {rank["images"] for rank in ranks} == {32}
        assert ranks[0]["mean"] == pytest.approx(ranks[1]["mean"])
        assert files(job, "model") == {"checkpoint-1.pth.tar"}
