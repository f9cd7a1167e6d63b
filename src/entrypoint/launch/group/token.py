"""The key that every host of one job holds and no other process has by chance: it authenticates the group's channel.

Strength: with DLC_JOB_TOKEN set, that of the token. Without it the key comes from the job's ARN or name (or the hosts'
names where there is neither). That keeps out port scans, health checks and the hosts of other jobs; it does not keep
out somebody who knows the job's name and is let into its network.
"""

from __future__ import annotations

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCES = ("DLC_JOB_TOKEN", "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME")


def derive(environ: Mapping[str, str], hosts: Iterable[str]) -> bytes:
    """32 bytes, equal on every host of the job."""
    for source in SOURCES:
        if environ.get(source):
            return _digest(source, environ[source])
    return _digest("hosts", *sorted(hosts))


def _digest(*parts: str) -> bytes:
    digest = hashlib.sha256(b"dlc group 1")
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%s" % (len(encoded), encoded))  # the length keeps ("a", "bc") apart from ("ab", "c")
    return digest.digest()
