"""The request of CreateTrainingJob that a job becomes: as it is in the docs, as the SDK has it; no secret in it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dlc.cli import run
from dlc.places import sagemaker
from dlc.places.sagemaker import rules
from dlc.places.sagemaker.follow import JobLines, read_exit_code
from dlc.places.sagemaker.image import Stored, choose_image
from dlc.places.sagemaker.request import make_request
from dlc.places.sagemaker.rules import list_notes
from dlc.places.sagemaker.settings import Settings, find_region
from dlc.places.sagemaker.submit import fill_request, list_open_values
from harness.job_spec import group_of
from harness.sagemaker_job import REGISTRY, job, settings

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "docs/clusters/training-job.json"
PAGE = ROOT / "docs/clusters/sagemaker.md"
SYSTEM = "2.13.0-training-cpu-py311-bookworm"


def request_of(*, options: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    assert sagemaker.refuse_job(job(**changes), settings(**(options or {}))) == []
    return make_request(job(**changes), settings(**(options or {})))


def test_the_command_of_the_page_prints_the_request_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = [line for line in PAGE.read_text().splitlines() if line.startswith("dlc submit examples/")]
    _, *words = shlex.split(command)
    assert run([word.replace("examples/", f"{ROOT}/examples/") for word in words]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text()


def test_the_page_names_every_option_and_none_that_is_not() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {word.partition(".")[0] for row in rows for word in re.findall(r"`([a-z_]+(?:\.[A-Z]+)?)`", row)}
    assert named == set(Settings.model_fields)


def test_the_pages_limits_are_those_that_are_checked() -> None:
    table = PAGE.read_text().partition("| limit | value |")[2].partition("\n\n")[0]
    limits = (rules.USUAL_HOSTS, rules.USUAL_RUN, rules.LONGEST_RUN, rules.LONGEST_KEEP_ALIVE, rules.LARGEST_VOLUME_GB)
    assert [f"{limit:,}" for limit in limits if f" {limit:,}" not in table] == []


def test_the_sdks_hyperparameters_are_json_and_the_jobs_own_as_typed() -> None:
    assert request_of()["HyperParameters"] == {
        "sagemaker_submit_directory": '"s3://sagemaker-eu-west-1-123456789012/digits/source/sourcedir.tar.gz"',
        "sagemaker_program": '"train.py"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"digits"',
        "sagemaker_region": '"eu-west-1"',
        "lr": "0.1",
        "optimizer": "Adam",
    }


def test_one_group_without_a_name_is_a_type_and_a_number() -> None:
    resources = request_of()["ResourceConfig"]
    assert resources == {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30}


def test_a_groups_type_of_the_place_stands_over_the_jobs() -> None:
    groups = (group_of("data", 1, instance_type="ml.c5.xlarge"), group_of("dnn", 1))
    options = {"instance_type": "ml.g5.xlarge", "instance_types": {"data": "ml.m5.xlarge"}}
    made = request_of(groups=groups, options=options)["ResourceConfig"]["InstanceGroups"]
    assert [each["InstanceType"] for each in made] == ["ml.m5.xlarge", "ml.g5.xlarge"]


def test_programs_of_groups_are_a_hyperparameter_and_what_the_platform_knows_is_left_out() -> None:
    programs = '{"data": "train_data.py"}'
    made = request_of(environment={"DLC_TERMINATION_GRACE": "30", "DLC_GROUP_PROGRAMS": programs, "DLC_PROFILE": "1"})
    assert made["HyperParameters"]["sagemaker_group_programs"] == programs
    assert made["Environment"] == {"DLC_PROFILE": "1"}


def test_every_option_has_its_place_in_the_request() -> None:
    options = {
        "spot": "yes", "max_run_seconds": "3600", "max_pending_seconds": "7200", "retries": "3", "volume_gb": "100",
        "checkpoints": "s3://kept/digits/", "output": "s3://results/digits", "output_key": "alias/mine",
        "volume_key": "alias/disk", "subnets": ["subnet-0a"], "security_groups": ["sg-0a"], "encrypt_traffic": "true",
        "metrics": {"loss": "loss ([0-9.]+)"}, "tags": {"team": "vision"}, "compress_output": "no",
        "channels": {"training": {"mode": "FastFile", "distribution": "ShardedByS3Key"}},
    }  # fmt: skip
    made = request_of(options=options, arguments=("--fast", "1"))
    assert made["EnableManagedSpotTraining"] is True
    assert made["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 3600,
        "MaxWaitTimeInSeconds": 7200,
        "MaxPendingTimeInSeconds": 7200,
    }
    assert made["RetryStrategy"] == {"MaximumRetryAttempts": 3}
    assert made["CheckpointConfig"] == {"S3Uri": "s3://kept/digits", "LocalPath": "/opt/ml/checkpoints"}
    assert made["OutputDataConfig"] == {
        "S3OutputPath": "s3://results/digits",
        "KmsKeyId": "alias/mine",
        "CompressionType": "NONE",
    }
    assert made["ResourceConfig"]["VolumeKmsKeyId"] == "alias/disk"
    assert made["VpcConfig"] == {"SecurityGroupIds": ["sg-0a"], "Subnets": ["subnet-0a"]}
    assert made["EnableInterContainerTrafficEncryption"] is True
    assert made["AlgorithmSpecification"]["MetricDefinitions"] == [{"Name": "loss", "Regex": "loss ([0-9.]+)"}]
    assert made["AlgorithmSpecification"]["ContainerArguments"] == ["train", "--fast", "1"]
    assert made["Tags"] == [{"Key": "team", "Value": "vision"}]
    assert "sagemaker_submit_directory" in made["HyperParameters"]
    assert "s3://results/digits/source/sourcedir.tar.gz" in made["HyperParameters"]["sagemaker_submit_directory"]
    (channel,) = made["InputDataConfig"]
    assert channel["InputMode"] == "FastFile"
    assert channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] == "ShardedByS3Key"


def test_machines_that_stay_are_a_warm_pool() -> None:
    made = request_of(options={"keep_alive_seconds": "600"})
    assert made["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 600


def test_a_folder_of_a_file_system_is_a_channel() -> None:
    vpc = {"subnets": ["subnet-0a"], "security_groups": ["sg-0a"]}
    made = request_of(channels={"training": "fsx://fs-0123456789abcdef0/share/digits"}, options=vpc)
    assert made["InputDataConfig"][0]["DataSource"]["FileSystemDataSource"] == {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "FSxLustre",
        "FileSystemAccessMode": "ro",
        "DirectoryPath": "/share/digits",
    }


def test_without_a_network_the_code_is_a_channel() -> None:
    made = request_of(options={"isolate_network": "true"})
    assert made["HyperParameters"]["sagemaker_submit_directory"] == '"/opt/ml/input/data/code/sourcedir.tar.gz"'
    code = made["InputDataConfig"][1]
    assert code["ChannelName"] == "code"
    assert code["DataSource"]["S3DataSource"]["S3Uri"] == "s3://sagemaker-eu-west-1-123456789012/digits/source"


def test_no_secret_is_shown_and_its_value_is_sent_only_with_the_request() -> None:
    submitted = job(environment={"GREETING": "hello"}, secrets=("DLC_JOB_TOKEN", "HF_TOKEN"))
    document = sagemaker.render_job(submitted, settings())
    shown = json.loads(document.text)["Environment"]
    assert shown == {"HF_TOKEN": "(hidden)", "GREETING": "hello"}
    filled = fill_request(document.value, f"{REGISTRY}/dlc/pytorch@sha256:{'0' * 64}", {"HF_TOKEN": "s3cret"})
    assert filled["Environment"] == {"HF_TOKEN": "s3cret", "GREETING": "hello"}
    (warning,) = list_open_values(submitted)
    assert warning.startswith("HF_TOKEN: SageMaker shows the value")
    assert "s3cret" not in warning


@pytest.mark.parametrize(
    ("environ", "file", "region"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "", "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "us-east-1"}, "", "us-east-1"),
        ({}, "[default]\nregion = eu-north-1\n[profile work]\nregion=us-west-2", "eu-north-1"),
        ({"AWS_PROFILE": "work"}, "[default]\nregion = eu-north-1\n[profile work]\nregion=us-west-2", "us-west-2"),
        ({"AWS_PROFILE": "other"}, "[default]\nregion = eu-north-1", ""),
        ({}, "no section", ""),
    ],
)
def test_the_region_is_that_of_the_shells_aws_clients(
    environ: dict[str, str], file: str, region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(file)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**environ, "AWS_CONFIG_FILE": str(tmp_path / "config")}.items():
        monkeypatch.setenv(name, value)
    assert find_region() == region


def test_what_is_allowed_and_seldom_meant_is_noted() -> None:
    groups = (group_of("homogeneousCluster", 21, instance_type="ml.g5.xlarge"),)
    notes = list_notes(request_of(groups=groups, options={"spot": "yes", "max_run_seconds": "500000"}))
    assert [note.partition(":")[0] for note in notes] == [
        "21 hosts",
        "max_run_seconds 500,000",
        "spot without checkpoints",
        f"{REGISTRY}/dlc/pytorch",
    ]
    assert list_notes(request_of()) == []


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"TrainingJobStatus": "Completed"}, 0),
        ({"TrainingJobStatus": "Stopped"}, 143),
        ({"TrainingJobStatus": "Failed", "FailureReason": "AlgorithmError: rank 0 exited, exit code: 7"}, 7),
        ({"TrainingJobStatus": "Failed", "FailureReason": "said exit code: 3\nlast\n, exit code: 69"}, 69),
        ({"TrainingJobStatus": "Failed", "FailureReason": "CapacityError: no ml.p5.48xlarge"}, 1),
        ({"TrainingJobStatus": "Failed"}, 1),
    ],
)
def test_the_exit_code_is_the_launchers_if_the_service_has_seen_it(job: dict[str, str], code: int) -> None:
    assert read_exit_code(job) == code


def test_lines_of_many_hosts_come_once_and_with_their_hosts_names() -> None:
    """The service gives 50 streams at a time, and the same token again at a stream's end."""
    printed = {"digits/algo-1-17": ["epoch 1\n", "epoch 2"], "digits/algo-2-17": ["ready"]}
    pages: dict[str, dict[str, Any]] = {
        "": {"logStreams": [{"logStreamName": "digits/algo-2-17"}], "nextToken": "more"},
        "more": {"logStreams": [{"logStreamName": "digits/algo-1-17"}]},
    }

    def call(service: str, operation: str, region: str, **words: Any) -> dict[str, Any]:
        assert (service, region) == ("logs", "eu-west-1")
        if operation == "describe_log_streams":
            return pages[words.get("nextToken", "")]
        lines, start = printed[words["logStreamName"]], int(words.get("nextToken", "0"))
        return {"events": [{"message": line} for line in lines[start:]], "nextForwardToken": str(len(lines))}

    lines = JobLines("digits", "eu-west-1", call)
    assert list(lines.read_new()) == ["[algo-1] epoch 1", "[algo-1] epoch 2", "[algo-2] ready"]
    printed["digits/algo-2-17"].append("done")
    assert list(lines.read_new()) == ["[algo-2] done"]
    assert list(lines.read_new()) == []


@pytest.mark.parametrize(
    ("tag", "digest"),
    [
        (SYSTEM, "plain"),
        ("2.13-training-cpu-py311", "plain"),
        ("2.13-training-cpu-py311-set-0a1b2c3d", "changed"),
        ("2.13-training-cpu-py311-xla", None),
        ("2.1-training-cpu-py311", None),
        ("mine", "mine"),
    ],
)
def test_dlcs_own_reference_is_found_under_the_tags_of_a_push(tag: str, digest: str | None) -> None:
    images = {
        "old": Stored("old", ("2.13.0-training-cpu-py311-bookworm-20260101",), 1),
        "plain": Stored("plain", (SYSTEM, f"{SYSTEM}-20261120", f"{SYSTEM}-0123456789ab"), 3),
        "changed": Stored("changed", (f"{SYSTEM}-set-0a1b2c3d",), 4),
        "other": Stored("other", ("2.12.1-training-cpu-py311-bookworm",), 5),
        "mine": Stored("mine", ("mine",), 6),
    }
    found = choose_image(tag, list(images.values()))
    assert (found.digest if found else None) == digest
