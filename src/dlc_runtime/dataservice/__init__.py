"""Batches made on data hosts for training hosts of a job; may import `cluster_facts`, and torch and gRPC lazily.

`serve(...)` on data hosts, `RemoteLoader(...)` on training hosts in the DataLoader's place. What is promised, and how
it is kept: docs/heterogeneous.md. Rooms: `schedule` (pure) and `wire` <- `server` and `client`, which do not import
each other; `wire` <- `tensorflow`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.dataservice.client.remote_loader import RemoteLoader
    from dlc_runtime.dataservice.schedule.progress import merge_states
    from dlc_runtime.dataservice.server.serve import serve

__all__ = ["RemoteLoader", "merge_states", "serve"]


def __getattr__(name: str) -> Any:
    """Import lazily: a training host nothing of the server, a data host nothing of the client."""
    if name == "RemoteLoader":
        from dlc_runtime.dataservice.client.remote_loader import RemoteLoader

        return RemoteLoader
    if name == "merge_states":
        from dlc_runtime.dataservice.schedule.progress import merge_states

        return merge_states
    if name == "serve":
        from dlc_runtime.dataservice.server.serve import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
