"""The words of the control channel: which calls there are, and how each proves who sent it. Pure.

Every call begins with a nonce of the server's, which serves once. Both sides prove that they hold the token, and that
these are their words: a call cannot be replayed, and not be sent to another method.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import ProtocolError, RefusedError
from dlc_runtime.dataservice.wire import token as tokens

if TYPE_CHECKING:
    from typing import Any

SERVICE = "dlc.dataservice.Control"
CHALLENGE, DESCRIBE, STATUS, STOP = "Challenge", "Describe", "Status", "Stop"
MOST_MESSAGE = 1 << 20  # bytes, either way
DEFAULT_PORT = 7800


def seal(token: bytes, nonce: bytes, method: str, body: Any) -> bytes:
    """A call's bytes."""
    text = json.dumps(body).encode()
    return nonce + tokens.proof(token, b"call", method.encode(), nonce, text) + text


def split(call: bytes) -> tuple[bytes, bytes, bytes]:
    """Nonce, proof and text of a call."""
    return call[: tokens.NONCE], call[tokens.NONCE : tokens.NONCE + tokens.PROOF], call[tokens.NONCE + tokens.PROOF :]


def open_call(token: bytes, call: bytes, method: str) -> Any:
    """Raises RefusedError for a call that does not hold the token, ProtocolError for one that is malformed."""
    nonce, proof, text = split(call)
    if not tokens.is_proof(proof, token, b"call", method.encode(), nonce, text):
        raise RefusedError("a call that does not hold this job's token")
    return _parsed(text)


def seal_reply(token: bytes, nonce: bytes, method: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    return tokens.proof(token, b"reply", method.encode(), nonce, text) + text


def open_reply(token: bytes, nonce: bytes, method: str, reply: bytes) -> Any:
    """Raises RefusedError where the server does not hold the token."""
    proof, text = reply[: tokens.PROOF], reply[tokens.PROOF :]
    if not tokens.is_proof(proof, token, b"reply", method.encode(), nonce, text):
        raise RefusedError("the data server does not hold this job's token; every host needs the same DLC_JOB_TOKEN")
    return _parsed(text)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"expected JSON, found {text[:100]!r}") from error
