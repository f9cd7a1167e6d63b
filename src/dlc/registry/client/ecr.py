"""The AWS account's registry: credentials for it, and repositories, through boto3 with the user's own AWS set-up."""

from __future__ import annotations

import base64
import urllib.parse
from typing import Any

from dlc.core.errors import RegistryError
from dlc.registry.client.credentials import Credentials

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    raise RegistryError(
        "--to ecr: expected the Python package boto3, found none", ".venv/bin/python -m pip install boto3"
    ) from None


def log_in_to_ecr() -> tuple[str, Credentials]:
    """Return the name of the account's registry in the configured region, and credentials that last half a day."""
    [found] = _call_ecr("get_authorization_token")["authorizationData"]
    user, _, secret = base64.b64decode(found["authorizationToken"]).decode().partition(":")
    return urllib.parse.urlsplit(found["proxyEndpoint"]).netloc, Credentials(user, secret)


def ensure_repository(name: str) -> None:
    """Create the repository if it is missing, with scan on push and mutable tags."""
    try:
        _call_ecr("describe_repositories", repositoryNames=[name])
    except MissingRepositoryError:
        _call_ecr(
            "create_repository",
            repositoryName=name,
            imageScanningConfiguration={"scanOnPush": True},
            imageTagMutability="MUTABLE",
        )


class MissingRepositoryError(RegistryError):
    """The account has no repository of this name."""


def _call_ecr(operation: str, **arguments: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = getattr(boto3.client("ecr"), operation)(**arguments)
        return answer
    except ClientError as error:
        kind = MissingRepositoryError if _error_code(error) == "RepositoryNotFoundException" else RegistryError
        remedy = "check the repository's name and the permissions of this AWS user (aws sts get-caller-identity)"
        raise kind(f"ECR {operation}: {error}", remedy) from None
    except BotoCoreError as error:
        raise RegistryError(f"ECR {operation}: {error}", "set region and credentials: aws configure") from None


def _error_code(error: Any) -> str:
    return str(error.response["Error"]["Code"])
