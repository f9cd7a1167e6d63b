"""tf.data.service on data hosts; may import `cluster_facts`, `errors`, `wire`, and TensorFlow inside functions.

`distribute(dataset)` on training hosts; `serve()` on data hosts, or the word `tf.data` as their group's program. What
is promised: docs/heterogeneous.md.
"""

from __future__ import annotations

import itertools

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.tensorflow import endpoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.dataservice.tensorflow.host import serve

__all__ = ["distribute", "serve"]
# What TensorFlow 2.6 and later call the ways to share a dataset among workers.
MODES = {"dynamic": "distributed_epoch", "off": "parallel_epochs"}
_calls = itertools.count()


def distribute(
    dataset: Any,
    *,
    mode: str = "dynamic",
    name: str | None = None,
    group: str | None = None,
    service: str | None = None,
    patience: float = endpoints.PATIENCE_SECONDS,
    compression: str | None = None,
    max_outstanding_requests: int | None = None,
) -> Any:
    """Let the job's data hosts make the dataset; return it. What comes after it runs here.

    `mode`: "dynamic" gives each element of an epoch to one worker and so to one training process, at most once: what a
    worker had in hand when it died is lost. "off" gives every worker the whole dataset. The training processes that
    call this in the same order share the elements; `name` states what is shared, for datasets that only some of them
    read. `service`: the dispatcher as host:port, by default the job's.

    Raises SettingError, MissingPackageError, and ServersLostError after `patience` seconds without a data host, or as
    soon as the data hosts' programs have ended.
    """
    if mode not in MODES:
        raise SettingError(f"distribute: mode: expected one of {', '.join(MODES)}, found {mode!r}")
    if name == "":
        raise SettingError("distribute: name: expected a text, found an empty one")
    endpoints.require_tensorflow()
    from dlc_runtime.dataservice.tensorflow import pipeline

    pipeline.refuse_service(dataset)
    graph = pipeline.read_graph(dataset)
    job = cluster_facts.read()
    found = endpoints.Service(service, ()) if service else endpoints.find_service(job, group)
    # The workers of a stated service may be in this process.
    if not service:
        pipeline.refuse_python(graph)
    if mode == "dynamic":
        pipeline.refuse_parts(graph, len(found.workers))
        pipeline.warn_of_shuffle(graph)
    endpoints.wait_for_service(found, job, patience)
    import tensorflow as tf

    shared_as = name or f"dlc-{next(_calls)}"
    shared = dataset.apply(
        tf.data.experimental.service.distribute(
            processing_mode=MODES[mode],
            service=f"grpc://{found.dispatcher}",
            job_name=shared_as,
            max_outstanding_requests=max_outstanding_requests,
            compression=compression,
            target_workers="ANY",
        )
    )
    if mode == "dynamic" and not (service or name):
        add = pipeline.make_adder(job, group or endpoints.find_data_group(job), shared_as)
        if add is not None:
            shared = pipeline.count_elements(shared, dataset, graph, shared_as, len(found.workers), add)
    # A rank's elements are its own: tf.distribute must not take a share of them.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return shared.with_options(options)


def __getattr__(name: str) -> Any:
    """Import lazily: a training host nothing of the servers."""
    if name == "serve":
        from dlc_runtime.dataservice.tensorflow.host import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
