"""The control channel: its calls over gRPC, and how each proves who sent it.

Every call begins with a nonce of the server's, which serves once. Both sides prove that they hold the token, and that
these are their words: a call cannot be replayed, and not be sent to another method.
"""

from __future__ import annotations

import hmac
import importlib.util
import json
from typing import TYPE_CHECKING

from dlc_channel import keys
from dlc_runtime.dataservice.errors import DataServiceError, MissingPackageError, ProtocolError, RefusedError
from dlc_runtime.dataservice.wire import tls

if TYPE_CHECKING:
    from typing import Any

SERVICE = "dlc.dataservice.Control"
CHALLENGE, DESCRIBE, STATUS, STOP = "Challenge", "Describe", "Status", "Stop"
# Bytes, either way.
MOST_MESSAGE = 1 << 20
DEFAULT_PORT = 7800
PACKAGES = {"grpc": "grpcio", "grpc_health": "grpcio-health-checking"}
WITHIN_SECONDS = 5.0
WRONG_SERVER = "the data server does not hold this job's token; every host needs the same DLC_JOB_TOKEN"


def seal_call(token: bytes, nonce: bytes, method: str, body: Any) -> bytes:
    """Return a call's bytes."""
    text = json.dumps(body).encode()
    return nonce + _prove(token, b"call", method, nonce, text) + text


def split_call(call: bytes) -> tuple[bytes, bytes, bytes]:
    """Return nonce, proof and text of a call."""
    head = keys.NONCE_BYTES + keys.PROOF_BYTES
    return call[: keys.NONCE_BYTES], call[keys.NONCE_BYTES : head], call[head:]


def open_call(token: bytes, call: bytes, method: str) -> Any:
    """Read a call. Raises RefusedError if it lacks the token's proof, ProtocolError if it is malformed."""
    nonce, proof, text = split_call(call)
    right = _prove(token, b"call", method, nonce, text)
    return _checked(proof, right, text, "a call that does not hold this job's token")


def seal_reply(token: bytes, nonce: bytes, method: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    return _prove(token, b"reply", method, nonce, text) + text


def open_reply(token: bytes, nonce: bytes, method: str, reply: bytes) -> Any:
    """Read a reply. Raises RefusedError if the server does not hold the token."""
    proof, text = reply[: keys.PROOF_BYTES], reply[keys.PROOF_BYTES :]
    return _checked(proof, _prove(token, b"reply", method, nonce, text), text, WRONG_SERVER)


def _prove(token: bytes, kind: bytes, method: str, nonce: bytes, text: bytes) -> bytes:
    return keys.proof(keys.purpose_key(token, "control"), kind, method.encode(), nonce, text)


def _checked(given: bytes, right: bytes, text: bytes, refusal: str) -> Any:
    if not hmac.compare_digest(given, right):
        raise RefusedError(refusal)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"expected JSON, found {text[:100]!r}") from error


def require_packages() -> None:
    """Raise MissingPackageError without gRPC. Imports nothing: a process that forks must not have gRPC's threads."""
    absent = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if absent:
        raise MissingPackageError(
            f"the data service needs {' and '.join(absent)}, which this image does not have; add"
            f" {' '.join(absent)} to the requirements.txt beside the script"
        )


def load_grpc() -> Any:
    """Import gRPC. Raises MissingPackageError."""
    require_packages()
    import grpc

    return grpc


def load_health() -> Any:
    """Import the health service's messages. Raises MissingPackageError, also if its version does not fit gRPC's."""
    module = load_grpc()
    try:
        from grpc_health.v1 import health_pb2
    except Exception as error:
        # Generated code raises RuntimeError for a gRPC, and for a protobuf, that is too old.
        version = module.__version__
        raise MissingPackageError(
            f"grpc_health cannot be imported beside grpcio {version}: {type(error).__name__}: {error}; add"
            f" grpcio=={version} and grpcio-health-checking=={version} to the requirements.txt beside the script"
        ) from error
    return health_pb2


class CallError(DataServiceError):
    """The control process does not answer, or not as it should."""


def call(target: str, token: bytes, method: str, body: Any = None, within: float = WITHIN_SECONDS) -> Any:
    """Ask a server. Raises CallError, and RefusedError if one side does not hold the other's token."""
    grpc = load_grpc()
    options = [
        ("grpc.max_receive_message_length", MOST_MESSAGE),
        # The job's own network has no proxy.
        ("grpc.enable_http_proxy", 0),
        # An old connection's backoff must not delay the call of a restarted server.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    own = tls.enabled_identity(token)
    if own is None:
        opened = grpc.insecure_channel(target, options)
    else:
        known = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
        opened = grpc.secure_channel(target, known, [*options, ("grpc.ssl_target_name_override", tls.NAME)])
    with opened as opened_channel:
        try:
            nonce = opened_channel.unary_unary(f"/{SERVICE}/{CHALLENGE}")(b"", timeout=within)
            sealed = seal_call(token, nonce, method, body)
            reply = opened_channel.unary_unary(f"/{SERVICE}/{method}")(sealed, timeout=within)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                raise RefusedError(
                    f"{target}: the data server refuses this job's token; every host needs the same DLC_JOB_TOKEN"
                ) from None
            raise CallError(f"{target}: {error.code().name.lower().replace('_', ' ')}, {error.details()}") from None
    return open_reply(token, nonce, method, reply)
