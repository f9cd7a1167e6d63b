"""The library inside the user's training process; no room may import the launcher or dlc.

`torch`, `tensorflow` and `grpc` are imported inside functions, or in modules that only they need.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_runtime.cluster_facts import Cluster


def cluster() -> Cluster:
    """Return this host's group, its rank in it, and its peers by group with their addresses."""
    from dlc_runtime.cluster_facts import read

    return read()
