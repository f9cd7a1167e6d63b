"""The cluster of a container that nobody told anything: itself."""

from __future__ import annotations

from launch.base.paths import Paths
from launch.discovery.cluster import SINGLE_HOST, Cluster, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


HOST = "algo-1"  # what scripts written for one host expect; a container's own host name is a random number


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster:
    """One host; it never has to be resolved, because a job of one host talks to nobody."""
    return plain(SINGLE_HOST, [HOST], HOST, SINGLE_HOST, environ)
