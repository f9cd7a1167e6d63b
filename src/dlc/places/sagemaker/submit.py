"""A job handed to SageMaker: its image is looked up, its code uploaded, the request sent; or nothing is left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dlc.core.atomic_files import scratch_folder
from dlc.core.errors import DlcError, PlatformError
from dlc.job.code_files import write_archive
from dlc.job.job_spec import TOKEN, JobSpec
from dlc.places.place import Document
from dlc.places.sagemaker.aws import AwsError, call_aws
from dlc.places.sagemaker.follow import find_job
from dlc.places.sagemaker.request import ARCHIVE, ECR, locate_archive, locate_image, make_request
from dlc.places.sagemaker.rules import list_notes
from dlc.places.sagemaker.settings import Settings

# The file of --dry-run: what `aws sagemaker create-training-job --cli-input-json` reads.
DOCUMENT = "training-job.json"
WORKPLACE = "dlc-submit-"


def render_job(job: JobSpec, options: Settings) -> Document:
    """Return the request. It has no value of a secret."""
    request = make_request(job, options)
    return Document(DOCUMENT, json.dumps(request, indent=2) + "\n", request)


def submit_job(job: JobSpec, options: Settings, document: Document, secrets: Mapping[str, str]) -> str:
    """Upload the code and start the job; return its name. What was uploaded is removed if the job does not start.

    Raises PlatformError, ImageError, HostError without boto3.
    """
    # A dry run needs neither the registry nor an engine.
    from dlc.places.sagemaker.image import find_image

    require_account(options)
    _require_free_name(job.name, options.region)
    image = find_image(locate_image(job, options), job.image, is_chosen=bool(options.image or ECR.fullmatch(job.image)))
    request = fill_request(document.value, image, secrets)
    for note in [*list_notes(request), *list_open_values(job)]:
        print(f"dlc: warning: {note}", file=sys.stderr)
    address = locate_archive(job, options)
    try:
        _upload_code(job, options, address)
        try:
            _start_job(request, options.region)
        except KeyboardInterrupt:
            _stop_started(job.name, options.region)
            raise
    except BaseException:
        # Ctrl-C is one of these.
        _remove_upload(address, options.region)
        raise
    return job.name


def fill_request(request: Mapping[str, Any], image: str, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the request with the image's digest and the values of secrets."""
    specification = {**request["AlgorithmSpecification"], "TrainingImage": image}
    filled = {**request, "AlgorithmSpecification": specification}
    if "Environment" in request:
        environment = request["Environment"]
        filled["Environment"] = {name: secrets.get(name, value) for name, value in environment.items()}
    return filled


def list_open_values(job: JobSpec) -> list[str]:
    """Return a warning for each secret: whoever may describe a training job reads its variables."""
    names = [name for name in job.secrets if name != TOKEN]
    return [
        f"{name}: SageMaker shows the value to everybody who may describe the job; keep a secret in Secrets Manager "
        "and let the script read it by the job's role"
        for name in names
    ]


def require_account(options: Settings) -> None:
    """Raise PlatformError if the credentials are those of another account than the role's."""
    account = call_aws("sts", "get_caller_identity", options.region)["Account"]
    if account != options.account:
        raise PlatformError(
            f"role: expected one of the account {account}, which the credentials are for, found {options.role}",
            "--with role=ARN of that account, or AWS_PROFILE for the other one",
        )


def _require_free_name(name: str, region: str) -> None:
    """Raise PlatformError if the account has had a job of this name: the service keeps names for good."""
    if find_job(name, region):
        raise PlatformError(
            f"{name}: expected a name that no training job of the account has, found one", "--name another"
        )


def _upload_code(job: JobSpec, options: Settings, address: str) -> None:
    """Upload the archive, encrypted as the SDK does. Raises PlatformError, DlcError for a file that cannot be read."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    extra: dict[str, str] = {"ServerSideEncryption": "aws:kms"}
    if options.output_key:
        extra["SSEKMSKeyId"] = options.output_key
    if options.owns_bucket:
        # Somebody else may have made a bucket of this name.
        extra["ExpectedBucketOwner"] = options.account
    with scratch_folder(WORKPLACE) as folder, (folder / ARCHIVE).open("w+b") as body:
        write_archive(job.code, body)
        body.seek(0)
        try:
            call_aws("s3", "put_object", options.region, Bucket=bucket, Key=key, Body=body, **extra)
        except AwsError as error:
            raise _explain_upload(error, bucket, options.region) from None


def _explain_upload(error: AwsError, bucket: str, region: str) -> AwsError:
    if error.code == "NoSuchBucket":
        remedy = f"aws s3 mb s3://{bucket} --region {region}, or --with output=s3://another/folder"
        return AwsError(f"s3://{bucket}: expected a bucket, found none", remedy, error.code)
    if error.code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"):
        remedy = "--with output=s3://BUCKET of that region"
        return AwsError(f"s3://{bucket}: expected a bucket in {region}: {error.message}", remedy, error.code)
    return error


def _start_job(request: Mapping[str, Any], region: str) -> None:
    """Send the request. Raises PlatformError; after an answer that did not arrive, the service is asked."""
    try:
        call_aws("sagemaker", "create_training_job", region, **request)
    except AwsError as error:
        if not error.code:
            with suppress(DlcError):
                if find_job(request["TrainingJobName"], region):
                    return
        raise _explain_start(error, request) from None


def _stop_started(name: str, region: str) -> None:
    """Stop the job if the service has it: Ctrl-C came before its answer, and its code goes."""
    try:
        if find_job(name, region):
            call_aws("sagemaker", "stop_training_job", region, TrainingJobName=name)
    except DlcError as error:
        command = f"aws sagemaker stop-training-job --training-job-name {name}"
        print(f"dlc: warning: the job may have started: {error.message}; {command}", file=sys.stderr)


def _explain_start(error: AwsError, request: Mapping[str, Any]) -> AwsError:
    """Return the service's answer with what to do about it."""
    said = error.message.lower()
    if error.code == "ResourceLimitExceeded":
        error.remedy = (
            "ask for more in the console of Service Quotas, Amazon SageMaker, under the name in quotes; "
            "or another instance_type"
        )
    elif error.code == "ResourceInUse":
        error.remedy = "--name another: the service keeps names for good"
    elif "assume" in said and "role" in said:
        error.remedy = f"let sagemaker.amazonaws.com assume {request['RoleArn']} in the role's trust policy"
    elif "passrole" in said:
        error.remedy = f"this AWS user needs the permission iam:PassRole for {request['RoleArn']}"
    elif error.code == "ValidationException":
        error.remedy = error.remedy or "correct it in the job's file; dlc submit --dry-run shows the request"
    return AwsError(error.message, error.remedy, error.code)


def _remove_upload(address: str, region: str) -> None:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    try:
        call_aws("s3", "delete_object", region, Bucket=bucket, Key=key)
    except DlcError as error:
        # The first error is the one to raise.
        print(f"dlc: warning: the code may be left: {error.message}; aws s3 rm {address}", file=sys.stderr)
