"""The `dlc` commands of examples/README.md and docs/heterogeneous.md work as they stand, and do what the pages say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root
from harness import toy
from harness.dlc_run import DlcRun
from harness.engine import CALM_OPTIONS
from harness.images import Image

PAGE = find_root() / "examples/README.md"
WALK = find_root() / "docs/heterogeneous.md"
SECONDS = 600.0  # of one command: only a hang takes that long
EPOCHS, DIGITS, MADE_IMAGES = 3, 1437, 960
ENABLED = "sagemaker_training_compiler_enabled=true"
LOSS = 1e-4  # between eager and compiled, relative

pytestmark = [pytest.mark.integration, pytest.mark.timeout(5 * SECONDS)]  # a test has up to four commands


def words_of(*shown: str, without: str = "") -> list[str]:
    """The page's one command that shows all these words, from its options on; image and script are the last."""
    lines = re.findall(r"^dlc run (.*)$", PAGE.read_text(), re.MULTILINE)
    commands = [shlex.split(line) for line in lines]
    found = [words for words in commands if set(shown) <= set(words) and without not in words]
    assert len(found) == 1, f"{PAGE}: expected one command with {shown}, found {found}"
    return found[0]


def run(image: Image, folder: Path, words: list[str]) -> DlcRun:
    """The command has ended well, in this image instead of the page's; compiled as there where it says so."""
    compiler: list[str] = []
    if ENABLED in words:
        compiler += ["--env", "DLC_COMPILER_MODE=default"]  # compiles without measuring first: these jobs are short
        compiler += ["--env", "DLC_COMPILER=inductor"] if "torch-xla" in image.python_packages else []
    with DlcRun(folder / "run", *words[:-2], *compiler, image.ref, words[-1], cache=folder / "cache") as job:
        assert job.wait(SECONDS) == 0
        return job


def metrics(job: DlcRun) -> dict[str, Any]:
    return dict(json.loads((job.results / "output/metrics-rank0.json").read_text()))


def model(job: DlcRun) -> set[str]:
    return {path.name for path in (job.results / "model").iterdir()}


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_digits_are_prepared_on_the_host_that_trains(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("examples/heterogeneous/pytorch/train.py", without="--group"))
    assert metrics(job)["prepared_on"] == {"algo-1": EPOCHS * DIGITS}
    assert metrics(job)["accuracy"] > 0.8
    assert model(job) == {"model.pt"}


@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_digits_are_prepared_on_two_other_hosts_each_once(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("examples/heterogeneous/pytorch/train.py", "--group"))
    prepared = metrics(job)["prepared_on"]
    assert set(prepared) == {"algo-1", "algo-2"}
    assert sum(prepared.values()) == EPOCHS * DIGITS
    assert metrics(job)["accuracy"] > 0.8
    assert model(job) == {"model.pt"}
    assert "algo-1 0, algo-2 0, algo-3 0" in job.output


@pytest.mark.long
@pytest.mark.when(framework="tensorflow", version=">=2.19")
def test_images_are_augmented_on_the_host_that_trains(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("examples/heterogeneous/tensorflow/train.py", without="--group"))
    assert metrics(job)["prepared_on"] == {"algo-1": EPOCHS * MADE_IMAGES}
    assert metrics(job)["accuracy"] > 0.5
    assert model(job) == {"network.weights.h5"}


@pytest.mark.when(framework="tensorflow", version=">=2.19")
def test_images_are_augmented_on_other_hosts(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("examples/heterogeneous/tensorflow/train.py", "--group"))
    prepared = metrics(job)["prepared_on"]
    assert set(prepared) <= {"algo-1", "algo-2"}, job.output  # one of them, where the other one starts late
    assert sum(prepared.values()) == EPOCHS * MADE_IMAGES
    assert metrics(job)["accuracy"] > 0.5
    assert model(job) == {"network.weights.h5"}
    assert "algo-1 0, algo-2 0, algo-3 0" in job.output


def compiled(job: DlcRun, image: Image, function: str) -> None:
    """The job's compiler has compiled this model, nothing stayed eager, and the model has learnt.

    PyTorch 2.6 has transformers 5.1, whose decorator of a model's `forward` stays eager; the model below it does not.
    """
    report = json.loads((job.results / "output/compiler/report.json").read_text())
    names = {entry["module"] for entry in report["modules"]}
    assert any(function in name for name in names), report
    assert report["graphs"]
    assert report["eager"] == []
    stay = {Path(entry["file"]).name for entry in report["fallbacks"]}
    assert stay <= ({"generic.py"} if image.variant.header.version == "2.6" else set()), report
    losses = metrics(job)["losses"]
    assert losses[-1] < losses[0]
    assert metrics(job)["held_out_loss"] < losses[0]
    assert "config.json" in model(job)


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_bert_in_a_loop_learns_the_same_compiled(image: Image, tmp_path: Path) -> None:
    eager = run(image, tmp_path / "eager", words_of("pytorch_loop.py", "model=bert", without=ENABLED))
    assert not (eager.results / "output/compiler").exists()
    job = run(image, tmp_path / "compiled", words_of("pytorch_loop.py", "model=bert", ENABLED))
    compiled(job, image, "BertForMaskedLM")
    assert metrics(job)["losses"] == pytest.approx(metrics(eager)["losses"], rel=LOSS)
    assert "model.safetensors" in model(job)


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_gpt_under_the_trainer_is_compiled(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("pytorch_trainer.py", "model=gpt", ENABLED))
    compiled(job, image, "GPT2LMHeadModel")
    assert "model.safetensors" in model(job)


@pytest.mark.when(framework="tensorflow", version=">=2.19")
@pytest.mark.parametrize(
    ("script", "kind"),
    [("tensorflow_fit.py", "bert"), pytest.param("tensorflow_loop.py", "gpt", marks=pytest.mark.long)],
)
def test_models_of_transformers_are_compiled(image: Image, tmp_path: Path, script: str, kind: str) -> None:
    job = run(image, tmp_path, words_of(script, f"model={kind}", ENABLED))
    report = json.loads((job.results / "output/compiler/report.json").read_text())
    assert report["graphs"]
    assert report["fallbacks"] == []
    losses = metrics(job)["losses"]
    assert losses[-1] < losses[0]
    assert {"config.json", "tf_model.h5"} <= model(job)


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_the_way_from_an_idle_gpu_to_a_running_job_can_be_walked(image: Image, tmp_path: Path) -> None:
    text = WALK.read_text().split("\n## ")[1]  # the section of that name
    commands = [shlex.split(line) for line in re.findall(r"^dlc (.+)$", text, re.MULTILINE)]
    assert [words[0] for words in commands] == ["run", "profile", "advise", "run"]
    for name in ("buildspec", "docker", "src", "examples"):
        (tmp_path / name).symlink_to(find_root() / name)
    settings = toy.environment(DLC_CACHE_DIR=str(tmp_path / "cache"))
    said = []
    for words in commands:
        if words[0] == "run":
            words[-2] = image.ref
            words[1:1] = CALM_OPTIONS
        done = subprocess.run(
            toy.command(*words), cwd=tmp_path, env=settings, timeout=SECONDS,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(done.stdout)
    _, profile, advice, _ = said
    assert "CPU seconds for a batch, by 2 workers" in profile
    [answer] = re.findall(r"It answers (.+), (2\..x faster, .+ cheaper)\.", text)
    assert all(words in advice for words in answer)
    prepared = json.loads((tmp_path / "busy/output/metrics-rank0.json").read_text())["prepared_on"]
    assert set(prepared) == {"algo-1", "algo-2"}
    assert sum(prepared.values()) == EPOCHS * DIGITS
