"""What TensorFlow knows of this process: its version, device and rank."""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONTEXT = "tensorflow.python.eager.context"
HOROVOD = "horovod.tensorflow"  # its modules for Keras import it
PATIENCE_SECONDS = 60.0  # for another process to reach the same step


def facts() -> dict[str, Any]:
    found: dict[str, Any] = {"framework": f"tensorflow {tf.__version__}", "device": device()}
    rank = rank_of(os.environ)
    if rank is not None:
        found["rank"] = rank
    return found


def device() -> str:
    names = [gpu.name for gpu in gpus()]
    return f"{len(names)} GPUs" if len(names) > 1 else "GPU" if names else "cpu"


def gpus() -> list[Any]:
    return list(tf.config.list_physical_devices("GPU"))


def rank_of(environ: Mapping[str, str]) -> int | None:
    """Of TF_CONFIG: the chief is 0, the workers follow. None where it says nothing."""
    try:
        config = json.loads(environ.get("TF_CONFIG", "{}"))
        kind, index = config["task"]["type"], int(config["task"]["index"])
        chiefs = len(config["cluster"].get("chief", []))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return index if kind == "chief" else index + chiefs if kind == "worker" else None


class Peers:
    """The processes that train one model together, this one among them."""

    def __init__(self, rank: int = 0, count: int = 1, all_train: bool = True) -> None:
        self.rank, self.count, self._all_train = rank, count, all_train
        self._shared: dict[str, int] = {}  # times, by topic

    def can_share(self) -> bool:
        """MultiWorkerMirroredStrategy has begun the service by which its processes find each other."""
        context = sys.modules[CONTEXT].context()
        service = getattr(context, "coordination_service", None)
        has_store = bool(getattr(service, "service_type", "")) and hasattr(context, "get_config_key_value")
        return has_store and self._all_train

    def share(self, topic: str, text: str) -> list[str]:
        """Tell the other processes a text; return those of all by rank.

        All call it in the same order with the same topics. Raises TensorFlow's error where one does not answer within
        PATIENCE_SECONDS.
        """
        store: Any = sys.modules[CONTEXT].context()
        times = self._shared[topic] = self._shared.get(topic, 0) + 1
        store.set_config_key_value(f"dlc/{topic}/{times}/{self.rank}", text)
        wait = int(PATIENCE_SECONDS * 1000)
        told = [store.get_config_key_value(f"dlc/{topic}/{times}/{rank}", wait) for rank in range(self.count)]
        if times > 1:  # all have read it: they have told the next one
            store.delete_config_key_value(f"dlc/{topic}/{times - 1}/{self.rank}")
        return told


def peers(environ: Mapping[str, str]) -> Peers:
    """By TF_CONFIG, or of a Horovod that the script has not begun."""
    rank = rank_of(environ)
    if rank is not None:
        cluster = json.loads(environ["TF_CONFIG"])["cluster"]
        count = sum(len(cluster.get(kind, [])) for kind in ("chief", "worker"))
        return Peers(rank, count, all_train="ps" not in cluster)
    if HOROVOD in sys.modules:
        sizes = (environ.get(name, "") for name in ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE"))
        return Peers(0, max((int(size) for size in sizes if size.isdigit()), default=1), all_train=False)
    return Peers()


def wait_for_devices() -> None:
    """What runs on a GPU goes on after its call returned."""
    sync = getattr(getattr(getattr(tf, "test", None), "experimental", None), "sync_devices", None)  # from 2.12 on
    if sync is not None and gpus():
        sync()
