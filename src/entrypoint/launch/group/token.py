"""The key that every host of one job holds and no other process has by chance: it authenticates the group's channel.

Strength: with DLC_JOB_TOKEN set, that of the token. Without it the key comes from the job's ARN or name, which keeps
out port scans, health checks and other jobs, but not somebody who knows the name and is let into the job's network.
Where there is neither it is a hash of the hosts' names, which anybody can guess.
"""

from __future__ import annotations

import hashlib
import hmac

from launch.base.errors import CONFIG, LaunchError
from launch.base.settings import JOB_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCES = (JOB_TOKEN, "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME")
SAME_TOKEN = "give every host the same DLC_JOB_TOKEN or job name"  # noqa: S105 - a remedy
REMEDY = "set DLC_JOB_TOKEN to the same random text on every host, such as the output of `openssl rand -hex 16`"


def derive(environ: Mapping[str, str], hosts: Iterable[str]) -> bytes:
    """32 bytes, equal on every host of the job."""
    for source in SOURCES:
        if environ.get(source):
            return _digest(source, environ[source])
    return _digest("hosts", *sorted(hosts))


def is_guessable(environ: Mapping[str, str]) -> bool:
    """Whether the key comes from the hosts' names alone."""
    return not any(environ.get(source) for source in SOURCES)


def require(environ: Mapping[str, str]) -> None:
    """For what must not rest on a key that can be guessed. Raises LaunchError."""
    if is_guessable(environ):
        raise LaunchError(
            CONFIG,
            "MPI over several hosts lets one start programs on the others, and nothing secret tells this job's hosts"
            " from others",
            where=JOB_TOKEN,
            expected="a token, or the platform's own job name (TRAINING_JOB_NAME)",
            found="neither",
            remedy=REMEDY,
        )


def for_purpose(key: bytes, purpose: str) -> str:
    """A secret made from the job's key, in hexadecimal: who learns it cannot tell the key."""
    return hmac.digest(key, purpose.encode(), "sha256").hex()


def _digest(*parts: str) -> bytes:
    digest = hashlib.sha256(b"dlc group 1")
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%s" % (len(encoded), encoded))  # the length keeps ("a", "bc") apart from ("ab", "c")
    return digest.digest()
