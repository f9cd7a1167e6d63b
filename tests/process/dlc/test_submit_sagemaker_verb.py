"""`dlc submit --to sagemaker` against an account of moto: the calls that AWS would get, and nothing left behind."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from real_launcher import runnable_job, train

from dlc.cli import run
from dlc.core.errors import HostError, ImageError, PlatformError
from dlc.places.sagemaker import aws, image, submit
from harness.pages import find_blocks
from harness.sagemaker import (
    ACCOUNT,
    BUCKET,
    ENVIRON,
    REGION,
    REGISTRY,
    ROLE,
    Account,
    list_objects,
    open_account,
    push_image,
    serving_aws,
)

SOURCES = Path(__file__).parents[3] / "src"
TAG = "2.13.0-training-cpu-py311-bookworm"
JOB = f"""\
image: dlc/pytorch:2.13-training-cpu-py311
name: digits
script: train.py
resources: {{instance_type: ml.c5.xlarge}}
hosts: 2
hyperparameters: {{lr: 0.1}}
environment: {{HF_TOKEN: {{from: environment}}}}
places:
  sagemaker:
    role: {ROLE}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving_aws() as address:
        yield address


@pytest.fixture
def account(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """A user's shell in a folder with a job, an account with a bucket and the image."""
    own = {"HF_TOKEN": "s3cret", "DLC_ENGINE": "off", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    made = open_account(server, tmp_path / "cache", monkeypatch)
    push_image("dlc/pytorch", TAG, f"{TAG}-20261120", f"{TAG}-0123456789ab")
    (tmp_path / "job.yml").write_text(JOB)
    (tmp_path / "train.py").write_text("print('trained')\n")
    return made


def submit_to(*words: str) -> int:
    return run(["submit", "job.yml", "--to", "sagemaker", *words])


def test_the_request_has_the_images_digest_and_the_code_is_where_it_says(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit_to() == 0
    said = capsys.readouterr()
    assert said.out == "digits\n"
    (request,) = account.requests
    (stored,) = boto3.client("ecr").describe_images(repositoryName="dlc/pytorch")["imageDetails"]
    assert request["AlgorithmSpecification"]["TrainingImage"] == f"{REGISTRY}/dlc/pytorch@{stored['imageDigest']}"
    assert request["Environment"] == {"HF_TOKEN": "s3cret"}
    assert "HF_TOKEN: SageMaker shows the value" in said.err
    assert "s3cret" not in said.out + said.err
    place = json.loads(request["HyperParameters"]["sagemaker_submit_directory"])
    assert place == f"s3://{BUCKET}/digits/source/sourcedir.tar.gz"
    found = boto3.client("s3").get_object(Bucket=BUCKET, Key="digits/source/sourcedir.tar.gz")
    assert found["ServerSideEncryption"] == "aws:kms"
    with tarfile.open(fileobj=io.BytesIO(found["Body"].read())) as archive:
        assert archive.getnames() == ["train.py"]


def test_a_dry_run_sends_nothing_and_is_the_request_but_for_digest_and_secrets(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit_to("--dry-run") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (account.requests, list_objects(BUCKET)) == ([], [])
    assert submit_to() == 0
    (sent,) = account.requests
    for request in (shown, sent):
        del request["AlgorithmSpecification"]["TrainingImage"], request["Environment"]
    assert shown == sent


def test_who_waits_gets_the_lines_of_all_hosts_and_the_jobs_code(
    account: Account, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: float) -> None:
        # Others sleep too, before there is a job
        if not account.has("digits"):
            return
        account.print_lines("digits", "algo-2", ["ValueError: no"])
        account.end("digits", "Failed", "AlgorithmError: algo-2: ValueError: no, exit code: 7")
        monkeypatch.setattr("time.sleep", lambda _: None)

    monkeypatch.setattr("time.sleep", fail)
    start = account.change

    def started(name: str, **facts: Any) -> None:
        start(name, **facts)
        account.print_lines("digits", "algo-1", ["epoch 1", "epoch 2"])

    monkeypatch.setattr(account, "change", started)
    assert submit_to("--wait") == 7
    said = capsys.readouterr()
    assert said.out.splitlines()[:2] == ["[algo-1] epoch 1", "[algo-1] epoch 2"]
    assert "[algo-2] ValueError: no" in said.out.splitlines()
    assert "AlgorithmError: algo-2: ValueError: no" in said.err


def test_the_launcher_runs_the_uploaded_code_by_the_requests_own_files(account: Account, tmp_path: Path) -> None:
    """As a host of the service would: the request's hyperparameters are its file, and the code comes from S3."""
    (tmp_path / "train.py").write_text("import sys; print('trained by', sys.argv[1:])")
    assert submit_to("--name", "alone") == 0
    (request,) = account.requests
    job = runnable_job(tmp_path / "host").config("hyperparameters", request["HyperParameters"])
    packages = str(Path(boto3.__file__).parents[1])
    job.env(S3_ENDPOINT_URL=os.environ["AWS_ENDPOINT_URL"], PYTHONPATH=packages, **ENVIRON)
    done = train(job)
    assert done.returncode == 0, done.stderr
    assert "trained by ['--lr', '0.1']" in done.stdout


def test_ps_logs_and_stop_ask_the_service(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit_to() == 0
    account.print_lines("digits", "algo-1", ["epoch 1"])
    capsys.readouterr()
    assert run(["ps", "--to", "sagemaker", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)
    assert (job["id"], job["state"]) == ("digits", "InProgress")
    assert run(["logs", "digits"]) == 0
    assert capsys.readouterr().out == "[algo-1] epoch 1\n"
    assert run(["stop", "digits"]) == 0
    assert run(["stop", "digits"]) == 0
    assert account.stopped == ["digits"]


def test_a_job_that_the_account_lacks_is_named(account: Account) -> None:
    with pytest.raises(PlatformError, match="other: expected a training job of the account in eu-west-1, found none"):
        run(["logs", "other", "--to", "sagemaker"])


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (("ResourceLimitExceeded", "The account-level service limit 'ml.c5.xlarge for training job usage' is 0"),
         "Service Quotas"),
        (("ValidationException", f"Could not assume role {ROLE}. Please ensure that the role exists"),
         "let sagemaker.amazonaws.com assume"),
        (("AccessDeniedException", "User is not authorized to perform: sagemaker:CreateTrainingJob"),
         "sagemaker:CreateTrainingJob"),
        (("AccessDeniedException", "User is not authorized to perform: iam:PassRole on resource"), "iam:PassRole"),
        (("ResourceInUse", "Training job names must be unique"), "--name another"),
        (("ValidationException", "1 validation error detected"), "dlc submit --dry-run shows the request"),
    ],
    ids=["quota", "role", "permission", "pass role", "name", "validation"],
)  # fmt: skip
def test_nothing_is_left_of_a_job_that_the_service_refuses(
    account: Account, answer: tuple[str, str], remedy: str
) -> None:
    def refuse() -> tuple[str, str]:
        assert list_objects(BUCKET) == ["digits/source/sourcedir.tar.gz"]
        return answer

    account.refuse = refuse
    with pytest.raises(PlatformError, match=answer[0]) as caught:
        submit_to()
    assert remedy in caught.value.remedy
    assert list_objects(BUCKET) == []


def test_code_that_cannot_be_removed_is_named_with_the_command_that_does(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def keep(service: str, operation: str, region: str, **arguments: Any) -> dict[str, Any]:
        if operation == "delete_object":
            raise aws.AwsError("s3 delete_object: AccessDenied", "")
        return aws.call_aws(service, operation, region, **arguments)

    monkeypatch.setattr(submit, "call_aws", keep)
    account.refuse = lambda: ("ResourceLimitExceeded", "the limit is 0")
    with pytest.raises(PlatformError, match="the limit is 0"):
        submit_to()
    address = f"s3://{BUCKET}/digits/source/sourcedir.tar.gz"
    assert f"the code may be left: s3 delete_object: AccessDenied; aws s3 rm {address}" in capsys.readouterr().err


def test_ctrl_c_leaves_no_upload(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "_start_job", interrupt)
    with pytest.raises(KeyboardInterrupt):
        submit_to()
    assert list_objects(BUCKET) == []


def test_ctrl_c_before_the_services_answer_stops_the_job_that_it_has_started(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def interrupt(service: str, operation: str, region: str, **arguments: Any) -> dict[str, Any]:
        if operation == "stop_training_job":
            asked.append(arguments["TrainingJobName"])
            return {}
        answer = aws.call_aws(service, operation, region, **arguments)
        if operation == "create_training_job":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(submit, "call_aws", interrupt)
    with pytest.raises(KeyboardInterrupt):
        submit_to()
    assert asked == ["digits"]
    assert list_objects(BUCKET) == []


def test_a_job_whose_answer_got_lost_is_started_once(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_answer(service: str, operation: str, region: str, **arguments: Any) -> dict[str, Any]:
        answer = aws.call_aws(service, operation, region, **arguments)
        if operation == "create_training_job":
            raise aws.AwsError("sagemaker create_training_job: Connection was closed", aws.NETWORK)
        return answer

    monkeypatch.setattr(submit, "call_aws", lose_answer)
    assert submit_to() == 0
    assert len(account.requests) == 1
    assert list_objects(BUCKET) == ["digits/source/sourcedir.tar.gz"]


def test_a_name_that_the_account_has_had_is_refused_before_anything_is_sent(account: Account) -> None:
    assert submit_to() == 0
    before = boto3.client("s3").head_object(Bucket=BUCKET, Key="digits/source/sourcedir.tar.gz")["LastModified"]
    with pytest.raises(PlatformError, match="digits: expected a name that no training job of the account has"):
        submit_to()
    after = boto3.client("s3").head_object(Bucket=BUCKET, Key="digits/source/sourcedir.tar.gz")["LastModified"]
    assert before == after


def test_a_bucket_that_is_not_there_is_named_with_the_command_that_makes_it(account: Account) -> None:
    with pytest.raises(PlatformError, match="s3://results-of-mine: expected a bucket, found none") as caught:
        submit_to("--with", "output=s3://results-of-mine/digits")
    assert f"aws s3 mb s3://results-of-mine --region {REGION}" in caught.value.remedy
    assert account.requests == []


def test_a_role_of_another_account_is_refused(account: Account) -> None:
    with pytest.raises(PlatformError, match=f"expected one of the account {ACCOUNT}") as caught:
        submit_to("--with", "role=arn:aws:iam::210987654321:role/Training", "--with", f"output=s3://{BUCKET}")
    assert "AWS_PROFILE" in caught.value.remedy


def test_without_credentials_the_remedy_is_to_log_in(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    boto3.setup_default_session()
    with pytest.raises(PlatformError, match="Unable to locate credentials") as caught:
        submit_to()
    assert caught.value.remedy == aws.CREDENTIALS


def test_a_profile_that_is_none_is_named(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with pytest.raises(PlatformError, match="work") as caught:
        submit_to()
    assert caught.value.remedy == aws.CREDENTIALS


def test_a_region_that_does_not_answer_is_named(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    boto3.setup_default_session()
    with pytest.raises(PlatformError, match="Could not connect to the endpoint") as caught:
        submit_to()
    assert caught.value.remedy == aws.NETWORK


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dlc/tensorflow:2.21-training-cpu-py311", "expected the repository dlc/tensorflow, found none"),
        ("dlc/pytorch:2.9-training-cpu-py311", f"found none; its tags: {TAG}"),
        (f"{REGISTRY}/dlc/pytorch:mine", "dlc/pytorch:mine: expected an image that the registry has"),
        (f"{REGISTRY}/dlc/pytorch@sha256:{'0' * 64}", "expected an image that the registry has, found none"),
    ],
)
def test_an_image_that_the_registry_lacks_is_named_with_what_it_has(account: Account, name: str, words: str) -> None:
    with pytest.raises(ImageError) as caught:
        submit_to("--image", name)
    assert words in caught.value.message
    assert "dlc push ID --to ecr" in caught.value.remedy
    assert list_objects(BUCKET) == []


def test_the_registrys_image_has_to_be_the_one_of_this_machine(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "_read_local_key", lambda _: "0123456789abcdef")
    assert submit_to() == 0
    monkeypatch.setattr(image, "_read_local_key", lambda _: "fedcba9876543210")
    with pytest.raises(ImageError, match="expected the image that this machine has") as caught:
        submit_to("--name", "again")
    assert f"--with image={REGISTRY}/dlc/pytorch@sha256:" in caught.value.remedy
    assert submit_to("--name", "again", "--with", f"image={REGISTRY}/dlc/pytorch:{TAG}") == 0


def test_without_boto3_a_job_is_shown_and_not_sent(account: Account, tmp_path: Path) -> None:
    program = "import sys; sys.modules['boto3'] = None; from dlc.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "submit", "job.yml", "--to", "sagemaker"]
    environ = {**ENVIRON, "HF_TOKEN": "x", "DLC_CACHE_DIR": str(tmp_path)}
    shown = subprocess.run([*words, "--dry-run"], env=environ, capture_output=True, text=True, check=False)
    assert (shown.returncode, json.loads(shown.stdout)["TrainingJobName"]) == (0, "digits")
    sent = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert sent.returncode == HostError.exit_code
    assert "--to sagemaker: expected the Python package boto3, found none" in sent.stderr
    assert "python -m pip install boto3" in sent.stderr


def test_the_commands_of_the_page_run(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the first block, which a unit test runs, and the push, of which a test with the image does a part."""
    page = (SOURCES.parent / "docs/clusters/sagemaker.md").read_text()
    (file,) = find_blocks(page, "yaml")
    (tmp_path / "job.yml").write_text(file)
    (tmp_path / "data").mkdir()
    _, steps = find_blocks(page)
    push, sync, *commands = map(shlex.split, steps.splitlines())
    assert push[:2] == ["dlc", "push"]
    channel = yaml.safe_load(file)["places"]["sagemaker"]["channels"]["training"]
    assert sync == ["aws", "s3", "sync", "./data", channel["address"]]

    def end_job(_: float) -> None:
        # Others sleep too, before there is a job
        if account.has("digits"):
            account.end("digits", "Completed")

    monkeypatch.setattr("time.sleep", end_job)
    said = []
    for program, *words in commands:
        assert program == "dlc"
        assert run(words) == 0
        said.append(capsys.readouterr().out)
        if "--wait" in words:
            account.print_lines("digits", "algo-1", ["trained"])
    shown, _, listed, followed, _ = said
    assert json.loads(shown)["CheckpointConfig"]["S3Uri"] == "s3://bucket/digits/checkpoints"
    assert "digits" in listed
    assert followed == "[algo-1] trained\n"
    assert len(account.requests) == 1
