"""A job's key, a key for each purpose that follows from it, and proofs that somebody holds one.

The job's key is held by every host of one job, and by no other process by chance. With DLC_JOB_TOKEN set it is as
strong as the token. Without it the key comes from the job's ARN or name, which keeps out port scans, health checks and
other jobs, but not somebody who knows the name and is let into the job's network. Without either it is a hash of the
hosts' names, which anybody can guess.
"""

from __future__ import annotations

import hashlib
import hmac
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SOURCES = ("DLC_JOB_TOKEN", "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME")
DATA_TOKEN = "DLC_DATA_TOKEN"  # noqa: S105 - the name of a variable
NONCE_BYTES = PROOF_BYTES = 32


def job_key(environ: Mapping[str, str], hosts: Iterable[str]) -> bytes:
    """Return 32 bytes, equal on every host of the job."""
    for source in SOURCES:
        if environ.get(source):
            return _hash_parts(source, environ[source])
    return _hash_parts("hosts", *sorted(hosts))


def is_guessable(environ: Mapping[str, str]) -> bool:
    """Return whether the job's key comes from the hosts' names alone."""
    return not any(environ.get(source) for source in SOURCES)


def purpose_key(key: bytes, purpose: str) -> bytes:
    """Return the key for one purpose: who learns it cannot tell `key`, nor the key for another purpose."""
    return hmac.digest(key, b"dlc/2 " + purpose.encode(), "sha256")


def data_token(key: bytes) -> str:
    """Return what the launcher gives to the programs of a job as DLC_DATA_TOKEN: not the job's key."""
    return purpose_key(key, "data").hex()


def data_key(environ: Mapping[str, str], own: str | None = None) -> bytes:
    """Return the key of the job's data service. `own` is the user's own token, which comes before all variables.

    A process that no launcher gave a token makes the one that a launcher would give.
    """
    text = own or environ.get(DATA_TOKEN) or data_token(job_key(environ, [environ.get("SM_HOSTS", "")]))
    return _hash_parts(DATA_TOKEN, text)


def new_nonce() -> bytes:
    """Return random bytes that serve once."""
    return os.urandom(NONCE_BYTES)


def proof(key: bytes, *parts: bytes) -> bytes:
    """Prove that the sender holds the key and means these parts."""
    return hmac.digest(key, b"".join(map(_with_length, parts)), "sha256")


def _hash_parts(*parts: str) -> bytes:
    encoded = [_with_length(part.encode("utf-8", "surrogateescape")) for part in parts]
    return hashlib.sha256(b"dlc/2 job" + b"".join(encoded)).digest()


def _with_length(part: bytes) -> bytes:
    """Put its length before it: that keeps ("a", "bc") apart from ("ab", "c")."""
    return b"%d:%s" % (len(part), part)
