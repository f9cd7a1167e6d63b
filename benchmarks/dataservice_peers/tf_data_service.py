"""tf.data.service of TensorFlow: a dispatcher and a worker, without compression, which floats do not gain from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import batches
import tensorflow


def serve(port: int, _size: int) -> None:
    service = tensorflow.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=port))
    address = dispatcher.target.partition("://")[2]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    worker.join()


def take(port: int, size: int) -> Iterator[Any]:
    service = tensorflow.data.experimental.service
    images, labels = batches.ready(size)
    ready = tensorflow.data.Dataset.from_tensors((tensorflow.constant(images), tensorflow.constant(labels))).repeat()
    distributed = ready.apply(
        service.distribute(
            "parallel_epochs", f"grpc://127.0.0.1:{port}", compression=None, job_name=str(time.time_ns())
        )
    )
    return iter(distributed)


if __name__ == "__main__":
    batches.play(serve, take)
