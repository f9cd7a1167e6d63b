"""What TensorFlow knows of this process: its version, device and rank."""

from __future__ import annotations

import json
import os

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


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


def wait_for_devices() -> None:
    """What runs on a GPU goes on after its call returned."""
    sync = getattr(getattr(getattr(tf, "test", None), "experimental", None), "sync_devices", None)  # from 2.12 on
    if sync is not None and gpus():
        sync()
