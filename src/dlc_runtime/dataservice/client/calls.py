"""Calls to the control process of a data host. Each opens a channel and closes it: no thread of gRPC stays behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import DataServiceError, RefusedError
from dlc_runtime.dataservice.wire import control, grpc_package, tls

if TYPE_CHECKING:
    from typing import Any

WITHIN = 5.0  # seconds


class CallError(DataServiceError):
    """The control process does not answer, or not as it should."""


def call(target: str, token: bytes, method: str, body: Any = None, within: float = WITHIN) -> Any:
    """Raises CallError, and RefusedError where one side does not hold the other's token."""
    grpc = grpc_package.grpc()
    options = [
        ("grpc.max_receive_message_length", control.MOST_MESSAGE),
        ("grpc.enable_http_proxy", 0),  # the job's own network
        ("grpc.use_local_subchannel_pool", 1),  # a server that was restarted is not kept waiting by an old backoff
    ]
    own = tls.of(token)
    if own is None:
        opened = grpc.insecure_channel(target, options)
    else:
        known = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
        opened = grpc.secure_channel(target, known, [*options, ("grpc.ssl_target_name_override", tls.NAME)])
    with opened as channel:
        try:
            nonce = channel.unary_unary(f"/{control.SERVICE}/{control.CHALLENGE}")(b"", timeout=within)
            sealed = control.seal(token, nonce, method, body)
            reply = channel.unary_unary(f"/{control.SERVICE}/{method}")(sealed, timeout=within)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                raise RefusedError(
                    f"{target}: the data server refuses this job's token; every host needs the same DLC_JOB_TOKEN"
                ) from None
            raise CallError(f"{target}: {error.code().name.lower().replace('_', ' ')}, {error.details()}") from None
    return control.open_reply(token, nonce, method, reply)
