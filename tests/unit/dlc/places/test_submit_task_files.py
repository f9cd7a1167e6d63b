"""Task files of SkyPilot and dstack: as they are in the docs, what is refused, and that dlc sends none."""

from __future__ import annotations

import shlex
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlc.__main__ import main
from dlc.core.errors import UsageError
from dlc.job.job_spec import GroupSpec, JobSpec
from dlc.places import dstack, skypilot
from dlc.places.place import load_place
from harness.job_spec import group_of, spec_of
from harness.pages import find_blocks

ROOT = Path(__file__).parents[4]
PAGE = "docs/clusters/tasks.md"
DOCS = ROOT / "docs/clusters"
PLACES = (skypilot, dstack)


def of_gpus(gpus: str) -> tuple[str, GroupSpec]:
    return group_of("homogeneousCluster", 2, cpus="8", memory="60g", gpus=gpus)


def job(**changes: Any) -> JobSpec:
    plain: dict[str, Any] = {
        "code": Path("/home/me/train.py"), "image": "registry.example/dlc/pytorch:2.13-training-cpu-py311",
        "groups": [of_gpus("4")],
        "hyperparameters": {"sagemaker_torch_distributed_enabled": "true", "text": "it's $HOME"},
        "environment": {"GREETING": "it's"}, "secrets": ["HF_TOKEN"], "arguments": ("--epochs", "3"),
        "shared_memory": "",
    }  # fmt: skip
    return spec_of(**{**plain, **changes})


def of_sky() -> JobSpec:
    return job(channels={"training": "s3://bucket/digits"}, checkpoints="s3://bucket/checkpoints", shared_memory="8g")


def of_dstack() -> JobSpec:
    return job(channels={"training": "volume://digits"}, checkpoints="volume://work", shared_memory="8g", user="1000")


@pytest.mark.parametrize(
    ("place", "submitted", "file"),
    [("skypilot", of_sky(), "task.sky.yml"), ("dstack", of_dstack(), "task.dstack.yml")],
)
def test_the_file_is_that_of_the_docs(place: str, submitted: JobSpec, file: str) -> None:
    module = load_place(place)
    options = module.OPTIONS(accelerator="A100")
    assert module.refuse_job(submitted, options) == []
    document = module.render_job(submitted, options)
    assert document.name == file
    assert document.text == (DOCS / file).read_text()
    assert yaml.safe_load(document.text) == document.value


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yml").write_text("image: placeholder\nscript: train.py\nresources: {gpus: 4}\n")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / PAGE).read_text()
    commands = [shlex.split(line) for block in find_blocks(page) for line in block.splitlines()]
    assert [words[:2] for words in commands] == [["dlc", "submit"]] * 2
    for words in commands:
        assert main(words[1:]) == 0
        assert "A100" in capsys.readouterr().out


@pytest.mark.parametrize("place", [skypilot, dstack])
def test_no_value_of_a_secret_is_in_the_file(place: Any) -> None:
    value = place.render_job(job(), place.OPTIONS(accelerator="A100")).value
    if place is skypilot:
        assert value["secrets"] == {"DLC_JOB_TOKEN": None, "HF_TOKEN": None}
    else:
        assert value["env"][-2:] == ["DLC_JOB_TOKEN", "HF_TOKEN"]


def test_a_folder_of_code_is_one_mount(tmp_path: Path) -> None:
    task = skypilot.render_job(job(code=tmp_path), skypilot.OPTIONS(accelerator="A100"))
    assert task.value["file_mounts"] == {"/opt/ml/code": str(tmp_path)}
    task = dstack.render_job(job(code=tmp_path), dstack.OPTIONS())
    assert task.value["files"] == [f"{tmp_path}:/opt/ml/code"]


def test_a_type_of_machine_says_all_of_its_resources() -> None:
    machine = (group_of("homogeneousCluster", 1, instance_type="ml.g5.xlarge"),)
    assert skypilot.refuse_job(job(groups=machine), skypilot.OPTIONS()) == []
    task = skypilot.render_job(job(groups=machine), skypilot.OPTIONS(infra="aws/us-east-1", spot="yes", disk_gb="200"))
    assert task.value["resources"] == {
        "image_id": "docker:registry.example/dlc/pytorch:2.13-training-cpu-py311", "infra": "aws/us-east-1",
        "instance_type": "g5.xlarge", "use_spot": True, "disk_size": 200,
    }  # fmt: skip
    task = dstack.render_job(job(groups=machine), dstack.OPTIONS(fleet="mine", spot="yes"))
    assert (task.value["instance_types"], task.value["fleets"]) == (["g5.xlarge"], ["mine"])
    assert (task.value["spot_policy"], task.value["resources"]) == ("spot", {})


def of_groups() -> JobSpec:
    groups = (group_of("data_group", 2, cpus="0.5"), group_of("dnn_group", 1, cpus="2.5", gpus="4"))
    trained = {"sagemaker_distribution_instance_groups": '["dnn_group"]'}
    return job(groups=groups, hyperparameters=trained, shared_memory="8g")


def test_groups_are_a_job_group_of_skypilot() -> None:
    options = skypilot.OPTIONS(accelerator="A100")
    assert skypilot.refuse_job(of_groups(), options) == []
    document = skypilot.render_job(of_groups(), options)
    assert "sky jobs launch" in document.text.splitlines()[0]
    header, data, dnn = yaml.safe_load_all(document.text)
    assert header == {"name": "digits", "execution": "parallel", "primary_tasks": ["dnn-group"]}
    assert [(task["name"], task["num_nodes"]) for task in (data, dnn)] == [("data-group", 2), ("dnn-group", 1)]
    assert "accelerators" not in data["resources"]
    assert dnn["resources"]["accelerators"] == "A100:4"
    groups = "'data_group=data-group-[0-1].digits;dnn_group=dnn-group-[0-0].digits'"
    for task, before in ((data, 0), (dnn, 2)):
        assert f'export DLC_GROUPS={groups} DLC_RANK="$(({before} + SKYPILOT_NODE_RANK))"' in task["run"]


def test_groups_are_those_of_dstack_each_with_whole_cpus_and_no_fewer() -> None:
    options = dstack.OPTIONS(accelerator="A100")
    assert dstack.refuse_job(of_groups(), options) == []
    task = yaml.safe_load(dstack.render_job(of_groups(), options).text)
    # dstack takes no `nodes`, `commands` beside groups, and gives them no resources of the task.
    assert not {"nodes", "commands", "resources"} & set(task)
    assert [(group["name"], group["nodes"]) for group in task["groups"]] == [("data-group", 2), ("dnn-group", 1)]
    assert [group["resources"]["cpu"] for group in task["groups"]] == ["1..", "3.."]
    assert [group["resources"].get("gpu") for group in task["groups"]] == [None, "A100:4"]


def test_a_variable_of_several_lines_is_set_by_the_shell_of_dstack() -> None:
    task = dstack.render_job(job(environment={"KEY": "-----BEGIN\nit's", "A": "b"}), dstack.OPTIONS()).value
    assert "A=b" in task["env"]
    assert not [word for word in task["env"] if word.startswith("KEY")]
    assert task["commands"][0] == "export KEY='-----BEGIN\nit'\"'\"'s'"


@pytest.mark.parametrize(
    ("name", "made"),
    [("digits", "digits"), ("20261128-1", "dlc-20261128-1"), ("My_Job.2", "my-job-2"), ("a" * 63, "a" * 41)],
)
def test_dstack_gets_a_name_that_it_takes(name: str, made: str) -> None:
    assert dstack.render_job(job(name=name), dstack.OPTIONS()).value["name"] == made


@pytest.mark.parametrize(
    ("place", "changes", "keys", "expected"),
    [
        (
            dstack,
            {"groups": (group_of("a", 1, instance_type="g5.xlarge"), group_of("b", 1))},
            ("groups",),
            "one instance type for all groups",
        ),
        (skypilot, {"groups": (group_of("a_b", 1), group_of("a.b", 1))}, ("groups", "a_b"), "a name of"),
        (dstack, {"groups": (group_of("a" * 41, 1),)}, ("groups", "a" * 41), "a name of"),
        (dstack, {"groups": (of_gpus(""),)}, ("places", "dstack", "accelerator"), "an accelerator with"),
        (
            skypilot,
            {"groups": (group_of("homogeneousCluster", 1, instance_type="ml.g5.xlarge", memory="999g"),)},
            ("resources", "memory"),
            "at most what ml.g5.xlarge has",
        ),
        (
            dstack,
            {"groups": (group_of("homogeneousCluster", 1, instance_type="ml.g5.xlarge", cpus="64"),)},
            ("resources", "cpus"),
            "at most what ml.g5.xlarge has",
        ),
        *((place, {"image": "dlc/pytorch:2.13"}, ("image",), "an image with its registry") for place in PLACES),
        *((place, {"environment": {"DLC_HOSTS": "a"}}, ("environment", "DLC_HOSTS"), "hosts that") for place in PLACES),
        (dstack, {"groups": (of_gpus("all"),)}, ("resources", "gpus"), "a number of GPUs"),
        (skypilot, {"channels": {"training": "/data"}}, ("channels", "training"), "an address such as s3://"),
        (dstack, {"channels": {"training": "s3://b/x"}}, ("channels", "training"), "an address such as volume://"),
        (dstack, {"checkpoints": "volume://a/b"}, ("checkpoints",), "the name of a volume alone"),
        (skypilot, {"checkpoints": "/data"}, ("checkpoints",), "an address such as s3://"),
        (skypilot, {"user": "1000"}, ("user",), "no other user"),
        (
            skypilot,
            {"groups": (group_of("homogeneousCluster", 1),)},
            ("places", "skypilot", "accelerator"),
            "an accelerator with a number of `gpus`",
        ),
    ],
)
def test_what_they_cannot_do_is_refused_by_name(
    place: Any, changes: dict[str, Any], keys: tuple[str, ...], expected: str
) -> None:
    options = place.OPTIONS(accelerator="A100")
    [refusal] = [found for found in place.refuse_job(job(**changes), options) if found.keys == keys]
    assert refusal.expected.startswith(expected)


@pytest.mark.parametrize("place", ["skypilot", "dstack"])
def test_dlc_prints_the_file_and_sends_it_nowhere(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def start_nothing(*_: Any, **__: Any) -> None:
        raise AssertionError("dlc starts no client")

    monkeypatch.setattr(subprocess, "Popen", start_nothing)
    monkeypatch.setenv("HF_TOKEN", "x")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(ROOT)
    words = ["submit", "examples/ci/job.yml", "--to", place, "--name", "digits", "--image", "registry.example/dlc:1"]
    assert main([*words, "--dry-run"]) == 0
    assert "launcher.py train" in capsys.readouterr().out
    assert main(words) == UsageError.exit_code
    err = capsys.readouterr().err
    assert "dlc writes the file of" in err
    assert "--dry-run >FILE" in err
    module = load_place(place)
    for asked in (
        lambda: module.list_jobs(None),
        lambda: module.stop_job("1", None),
        lambda: module.wait_for_job("1", None),
        lambda: module.print_logs("1", None, StringIO(), follow=False),
    ):
        with pytest.raises(UsageError, match="dlc writes the file of"):
            asked()
