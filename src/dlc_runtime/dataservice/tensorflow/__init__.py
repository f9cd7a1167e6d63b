"""tf.data.service on data hosts; may import `cluster_facts`, `errors`, `wire`, and TensorFlow inside functions.

`distribute(dataset)` on training hosts; `serve()` on data hosts, or the word `tf.data` as their group's program. What
is promised: docs/heterogeneous.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.dataservice.tensorflow.host import serve
    from dlc_runtime.dataservice.tensorflow.place import distribute

__all__ = ["distribute", "serve"]


def __getattr__(name: str) -> Any:
    """A training host imports nothing of the servers, a data host nothing of the consumer."""
    if name == "distribute":
        from dlc_runtime.dataservice.tensorflow.place import distribute

        return distribute
    if name == "serve":
        from dlc_runtime.dataservice.tensorflow.host import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
