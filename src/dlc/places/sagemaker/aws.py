"""Calls to AWS by the user's own set-up, with errors that say what to do. The first call imports boto3."""

from __future__ import annotations

from functools import cache
from typing import Any

from dlc.core.errors import HostError, PlatformError

INSTALL = "python -m pip install boto3, in the environment of dlc"
CREDENTIALS = "aws configure, aws sso login or AWS_PROFILE; aws sts get-caller-identity shows who you are"
UPGRADE = "python -m pip install --upgrade boto3"
NETWORK = "check the region (--with region=...), the network and HTTPS_PROXY"
# Codes of answers that speak of who asks, not of what is asked.
WRONG_CREDENTIALS = {
    *("ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken"),
    *("SignatureDoesNotMatch", "UnrecognizedClientException", "AuthFailure", "RequestExpired"),
}
DENIED = {"AccessDenied", "AccessDeniedException", "AllAccessDisabled", "UnauthorizedOperation", "403", "Forbidden"}


class AwsError(PlatformError):
    """A service of AWS refuses a request, or does not answer."""

    def __init__(self, message: str, remedy: str, code: str = "") -> None:
        super().__init__(message, remedy)
        # What the service calls it; empty if it did not answer.
        self.code = code


def call_aws(service: str, operation: str, region: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer to one request. Raises AwsError, or HostError without boto3."""
    _, botocore = _import_client()
    request = f"{service} {operation}"
    try:
        answer: dict[str, Any] = getattr(_open_client(service, region), operation)(**arguments)
        return answer
    except botocore.ClientError as error:
        raise _explain_answer(service, operation, error) from None
    except (
        botocore.NoCredentialsError,
        botocore.PartialCredentialsError,
        botocore.CredentialRetrievalError,
        botocore.ProfileNotFound,
        botocore.SSOError,
        botocore.TokenRetrievalError,
    ) as error:
        raise AwsError(f"{request}: {error}", CREDENTIALS) from None
    except botocore.ParamValidationError as error:
        raise AwsError(f"{request}: {error}", UPGRADE) from None
    except botocore.BotoCoreError as error:
        raise AwsError(f"{request}: {error}", NETWORK) from None


@cache
def _import_client() -> tuple[Any, Any]:
    try:
        import boto3
        from botocore import exceptions
    except ImportError:
        raise HostError("--to sagemaker: expected the Python package boto3, found none", INSTALL) from None
    return boto3, exceptions


@cache
def _open_client(service: str, region: str) -> Any:
    """Return a client; making one takes a tenth of a second."""
    boto3, _ = _import_client()
    return boto3.client(service, region_name=region or None)


def forget_clients() -> None:
    """Make clients anew: the user's set-up is another one."""
    _open_client.cache_clear()


def _explain_answer(service: str, operation: str, error: Any) -> AwsError:
    code, said = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    message = f"{service} {operation}: {code}: {said}"
    if code in WRONG_CREDENTIALS:
        return AwsError(message, CREDENTIALS, code)
    if code in DENIED:
        action = f"{service}:{''.join(word.title() for word in operation.split('_'))}"
        return AwsError(message, f"this AWS user needs the permission {action}; aws sts get-caller-identity", code)
    return AwsError(message, NETWORK if code.startswith("5") else "", code)
