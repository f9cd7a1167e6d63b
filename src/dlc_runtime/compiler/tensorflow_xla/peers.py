"""The processes that train one model together: what one tells, all hear. Reads TensorFlow's private store of them."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.tf_internals import CONTEXT, read_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Horovod's modules for Keras import it.
HOROVOD = "horovod.tensorflow"
# Another process must reach the same step within it.
PATIENCE_SECONDS = 60.0


class Peers:
    """The processes that train one model together, this one among them."""

    def __init__(self, rank: int = 0, count: int = 1, all_train: bool = True) -> None:
        self.rank, self.count, self._all_train = rank, count, all_train
        self._shared: dict[str, int] = {}  # times, by topic

    def can_share(self) -> bool:
        """Tell whether MultiWorkerMirroredStrategy has begun the service by which its processes find each other."""
        context = sys.modules[CONTEXT].context()
        service = getattr(context, "coordination_service", None)
        has_store = bool(getattr(service, "service_type", "")) and hasattr(context, "get_config_key_value")
        return has_store and self._all_train

    def share(self, topic: str, text: str) -> list[str]:
        """Tell the other processes a text; return those of all by rank.

        All call it in the same order with the same topics. Raises TensorFlow's error if one does not answer within
        PATIENCE_SECONDS.
        """
        store: Any = sys.modules[CONTEXT].context()
        times = self._shared[topic] = self._shared.get(topic, 0) + 1
        store.set_config_key_value(f"dlc/{topic}/{times}/{self.rank}", text)
        wait = int(PATIENCE_SECONDS * 1000)
        told = [store.get_config_key_value(f"dlc/{topic}/{times}/{rank}", wait) for rank in range(self.count)]
        # All have read it: they have told the next one.
        if times > 1:
            store.delete_config_key_value(f"dlc/{topic}/{times - 1}/{self.rank}")
        return told


def find_peers(environ: Mapping[str, str]) -> Peers:
    """Find peers by TF_CONFIG, or of a Horovod that the script has not begun."""
    rank = read_rank(environ)
    if rank is not None:
        cluster = json.loads(environ["TF_CONFIG"])["cluster"]
        count = sum(len(cluster.get(kind, [])) for kind in ("chief", "worker"))
        return Peers(rank, count, all_train="ps" not in cluster)
    if HOROVOD in sys.modules:
        sizes = (environ.get(name, "") for name in ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE"))
        return Peers(0, max((int(size) for size in sizes if size.isdigit()), default=1), all_train=False)
    return Peers()


def is_initialized(horovod: Any) -> bool:
    try:
        return horovod is not None and bool(horovod.is_initialized())
    except AttributeError:
        # A build of Horovod without this.
        return False


class HorovodPeers(Peers):
    """Horovod's ranks, by a gather of our own: it has another name than any operation of the script's."""

    def __init__(self, horovod: Any) -> None:
        super().__init__(int(horovod.rank()), int(horovod.size()))
        self._horovod = horovod
        self._gathers: dict[str, Any] = {}

    def can_share(self) -> bool:
        return True

    def share(self, topic: str, text: str) -> list[str]:
        """Share as Peers do. A thread that waits for a process that does not come ends with Horovod."""
        gather = self._gathers.get(topic) or self._gathers.setdefault(topic, self._made(topic))
        told: list[str] = []

        def run() -> None:
            # Another process may have ended.
            with suppress(Exception):
                told.extend(bytes(gather(tf.constant([*f"{text}\n".encode()], tf.uint8)).numpy()).decode().splitlines())

        thread = threading.Thread(target=run, name="dlc-choosing", daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        if len(told) != self.count:
            raise TimeoutError(topic)
        return told

    def _made(self, topic: str) -> Any:
        """Make a graph: in one Horovod knows an operation by its name, outside by its kind, as the script's."""

        def gather(told: Any) -> Any:
            with tf.device("CPU:0"):
                return self._horovod.allgather(told, name=f"dlc_{topic}")

        made = tf.function(gather, autograph=False, input_signature=[tf.TensorSpec([None], tf.uint8)])
        return made.get_concrete_function()
