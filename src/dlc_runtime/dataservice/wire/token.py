"""The job's token, and proofs that one holds it. Pure but for the random numbers.

Strength: that of DLC_DATA_TOKEN, which the launcher makes from the job's key. Without it the token comes from the
job's ARN or name, which keeps out port scans and other jobs, but not somebody who knows the name and is let into the
job's network; a host alone makes it from its names, which only loopback protects.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = ("DLC_DATA_TOKEN", "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME", "SM_HOSTS")
NONCE = 32  # bytes
PROOF = 32


def derive(environ: Mapping[str, str], own: str | None = None) -> bytes:
    """32 bytes, equal on every host of the job. `own`: the user's own token, which comes before all."""
    source = next((name for name in SOURCES if environ.get(name)), "")
    text = own or f"{source}={environ.get(source, '')}"
    return hashlib.sha256(b"dlc data service 1" + text.encode("utf-8", "surrogateescape")).digest()


def nonce() -> bytes:
    return os.urandom(NONCE)


def proof(token: bytes, *parts: bytes) -> bytes:
    """Who sends it holds the token and means these parts."""
    digest = hmac.new(token, digestmod="sha256")
    for part in parts:
        digest.update(b"%d:%s" % (len(part), part))  # the length keeps ("a", "bc") apart from ("ab", "c")
    return digest.digest()


def is_proof(given: bytes, token: bytes, *parts: bytes) -> bool:
    return hmac.compare_digest(given, proof(token, *parts))
