"""Checks a dataset's graph before the data hosts make it, and counts the elements that arrive here.

Imports TensorFlow inside functions.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import uuid
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import RefusedError, SettingError
from dlc_runtime.dataservice.tensorflow import endpoints
from dlc_runtime.dataservice.wire import addresses, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dlc_runtime.cluster_facts import Cluster

LOG = logging.getLogger("dlc.dataservice")
PYTHON_OPERATIONS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
# Operation -> the method that each worker would run on its own part of the elements alone, by a count or by a memory.
EACH_BY_ITSELF = {
    "TakeDataset": "take",
    "SkipDataset": "skip",
    "ShardDataset": "shard",
    "ZipDataset": "zip or enumerate",
    "ScanDataset": "scan or counter",
    "UniqueDataset": "unique",
    "TakeWhileDataset": "take_while",
    "AssertCardinalityDataset": "assert_cardinality",
}
# Operation -> a source of which TensorFlow can give no worker a part.
WHOLE_ONLY = {
    "SnapshotDataset": "snapshot",
    "LoadDataset": "load",
    "CSVDataset": "CsvDataset",
    "SqlDataset": "SqlDataset",
}
# A dataset of the service itself.
SERVED = "DataServiceDataset"
PASSES_ON = ("PrefetchDataset", "OptionsDataset")
BATCHES = ("BatchDataset", "ParallelBatchDataset")
_lost: list[str] = []
# This one among the job's training processes.
_PROCESS = uuid.uuid4().hex


def read_graph(dataset: Any) -> Any:
    """Return its GraphDef; an empty one if this TensorFlow does not tell it."""
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef()
    # It is no public interface, and all that it gives is advice.
    with contextlib.suppress(Exception):
        graph.ParseFromString(dataset._as_serialized_graph().numpy())
    return graph


def refuse_python(graph: Any) -> None:
    """Raise SettingError if the graph calls Python, which is in this process alone."""
    if any(node.op in PYTHON_OPERATIONS for node in _all_nodes(graph)):
        raise SettingError(
            "distribute: the dataset calls Python before it (tf.py_function, tf.numpy_function, from_generator); a data"
            " host gets its graph alone, and would say `Could not find callback`. Let TensorFlow's own operations do"
            " that work, or do it after distribute, on this host"
        )


def refuse_service(dataset: Any) -> None:
    """Raise SettingError if the dataset comes from the service already: its workers would wait for themselves."""
    # The graph of one whose elements are counted here does not travel.
    if any(SERVED in type(step).__name__ for step in _steps(dataset)):
        raise SettingError(
            "distribute: the dataset comes from distribute already; call it once, after all that the data hosts are to"
            " do and before the rest"
        )


def _steps(dataset: Any) -> Iterator[Any]:
    """Yield the dataset and all that it is made of, as far as this TensorFlow tells it."""
    waiting = [dataset]
    while waiting:
        yield (step := waiting.pop())
        # A dataset of the user's own class may not tell what it is made of; the graph is looked at besides.
        with contextlib.suppress(AttributeError, NotImplementedError):
            waiting += step._inputs()


def refuse_parts(graph: Any, workers: int) -> None:
    """Raise SettingError for steps that each worker would take by itself; with one worker say it. 0: unknown.

    What is within the function of an interleave or flat_map is done for one of its elements, and does no harm.
    """
    names = [_name_of(node) for node in graph.node if not _does_nothing(graph, node)]
    if whole := [WHOLE_ONLY[name] for name in names if name in WHOLE_ONLY]:
        raise SettingError(
            f"distribute: {whole[0]} comes before it, of which TensorFlow can give no worker a part; read files by"
            " from_tensor_slices(files).interleave(...), so that the workers share the files; or state mode='off', with"
            " which each worker makes the whole dataset"
        )
    found = list(dict.fromkeys(EACH_BY_ITSELF[name] for name in names if name in EACH_BY_ITSELF))
    if not found:
        return
    text = (
        f"distribute: {', '.join(found)} before it: each worker does that with its own part of the elements alone, so"
        " take(300) gives 300 for each worker, skip leaves out as many for each, and zip pairs what does not belong"
        " together. Do it after distribute, or where the source is made: from_tensor_slices(files[100:]),"
        " from_tensor_slices((images, labels)), or within the function of an interleave"
    )
    if workers != 1:
        raise SettingError(text)
    LOG.warning("%s. With one data host, as here, it does no harm while its worker lives", text)


def _all_nodes(graph: Any) -> list[Any]:
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


def _name_of(node: Any) -> str:
    """Return an operation without its version."""
    return str(node.op).replace("Experimental", "").rstrip("0123456789").rstrip("V")


def _does_nothing(graph: Any, node: Any) -> bool:
    """Return whether the step leaves all elements as they are: skip(0), or take(-1)."""
    harmless = {"TakeDataset": -1, "SkipDataset": 0}.get(_name_of(node))
    return harmless is not None and _constant(graph, node.input[1]) == harmless


def _constant(graph: Any, name: str) -> int | None:
    """Return the number that an input is, if the graph says it."""
    import tensorflow as tf

    node = next((node for node in graph.node if node.name == name), None)
    return int(tf.make_ndarray(node.attr["value"].tensor)) if node is not None and node.op == "Const" else None


def warn_of_shuffle(graph: Any) -> None:
    """Say what a shuffle before `distribute` costs, and what to do instead."""
    sizes = [_constant(graph, node.input[1]) or 0 for node in graph.node if node.op.startswith("Shuffle")]
    if sizes:
        LOG.warning(
            "distribute: a shuffle comes before it: the worker that asks first takes a whole buffer (%s elements) and"
            " makes them alone, and they are lost if it dies; shuffle after distribute, or give the source a new order"
            " for each epoch (list_files: shuffle=False); docs/heterogeneous.md shows it", max(sizes) or "?",
        )  # fmt: skip


def _return_count(_: int, count: int) -> int:
    return count


def make_adder(job: Cluster, serving: str, name: str) -> Callable[[int, int], int | None] | None:
    """Return a function from an epoch and this process's count of it to that of all; None if nobody can know.

    It returns None in every process but the last one.
    """
    processes = endpoints.count_processes(job, serving)
    if processes < 2:
        return _return_count if processes else None
    address = (job.hosts_of(serving)[0].address, addresses.lease_port())

    def add(epoch: int, count: int) -> int | None:
        told = f"{name} {epoch} {processes}", _PROCESS, count
        try:
            through, total = tally.report_count(address, *told)
        except (OSError, RefusedError) as error:
            LOG.warning("tf.data.service: nobody adds up what the training processes took (%s): %s", name, error)
            return None
        return total if through == processes else None

    return add


def count_elements(
    shared: Any,
    dataset: Any,
    graph: Any,
    name: str,
    workers: int,
    add: Callable[[int, int], int | None] = _return_count,
) -> Any:
    """Let `shared` say at an epoch's end how many elements of `dataset` did not arrive, if that is known.

    If the dataset's last step makes batches, their samples are counted. If an earlier one does, each of the `workers`
    may leave out a batch. `add`: what `make_adder` returns.
    """
    import tensorflow as tf

    shape = tf.nest.flatten(shared.element_spec)
    if not all(type(leaf) is tf.TensorSpec and leaf.shape.rank is not None for leaf in shape):
        return shared
    source, of_rows = dataset, False
    with contextlib.suppress(AttributeError, ValueError):
        while type(source).__name__.strip("_") in PASSES_ON:
            (source,) = source._inputs()
        if type(source).__name__.strip("_") in BATCHES and shape[0].shape[0] is None:
            (source,) = source._inputs()
            of_rows = True
    expected = int(source.cardinality())
    has_batches = not of_rows and any("Batch" in node.op for node in graph.node)
    if expected <= 0:
        return shared

    epoch = -1

    def began() -> bool:
        nonlocal epoch
        epoch += 1
        return False

    def ended(count: Any) -> bool:
        total = add(epoch, int(count))
        if total is not None and expected - total > has_batches * (workers - 1):
            _warn_of_lost(name, total, expected)
        return False

    plain = tf.autograph.experimental.do_not_convert
    return _with_count(shared, of_rows, plain(began), plain(ended))


def _with_count(shared: Any, of_rows: bool, began: Any, ended: Any) -> Any:
    import tensorflow as tf

    ops, plain, spec = tf.raw_ops, tf.autograph.experimental.do_not_convert, shared.element_spec
    # No tf.Variable: a strategy would make one for each replica.
    with tf.init_scope(), tf.device("CPU:0"):
        count = ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name=f"dlc-count-{id(shared)}")

    def add(*element: Any) -> Any:
        rows = tf.shape(tf.nest.flatten(element)[0], tf.int64)[0] if of_rows else tf.ones([], tf.int64)
        ops.AssignAddVariableOp(resource=count, value=rows)
        return element if type(spec) is tuple else element[0]

    def begin(_: Any) -> Any:
        ops.AssignVariableOp(resource=count, value=tf.zeros([], tf.int64))
        return tf.numpy_function(began, [], tf.bool)

    def end(_: Any) -> Any:
        return tf.numpy_function(ended, [ops.ReadVariableOp(resource=count, dtype=tf.int64)], tf.bool)

    def shaped(_: Any) -> Any:
        return tf.nest.map_structure(lambda leaf: tf.zeros([size or 0 for size in leaf.shape], leaf.dtype), spec)

    def nothing(act: Any) -> Any:
        """Make a dataset without elements that acts when its turn comes."""
        return tf.data.Dataset.range(1).filter(plain(act)).map(plain(shaped))

    return nothing(begin).concatenate(shared.map(plain(add))).concatenate(nothing(end))


def _warn_of_lost(name: str, count: int, expected: int) -> None:
    text = (
        f"tf.data.service: an epoch ({name}) ended with {count} of {expected} elements: {expected - count} are lost (a"
        " worker that dies takes along what it has in hand), or another process took them"
    )
    LOG.warning(text)
    if not _lost:
        atexit.register(lambda: print("dlc:", "\ndlc: ".join(_lost[-5:]), file=sys.stderr, flush=True))
    _lost.append(text)
