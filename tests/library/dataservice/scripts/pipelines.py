"""What `distribute` says of pipelines that do not suit it, and how many elements are missed; prints JSON. No server."""

import json
import logging
import os
import tempfile

import tensorflow as tf

from dlc_runtime.dataservice.errors import ServersLostError, SettingError
from dlc_runtime.dataservice.tensorflow import distribute, pipeline

said = []
logging.getLogger("dlc.dataservice").addHandler(handler := logging.Handler())
handler.emit = lambda record: said.append(record.getMessage())


def heard(dataset, **options):
    """What is said of a dataset until its data hosts, which are not there, are waited for."""
    said.clear()
    try:
        distribute(dataset, patience=0.0, **options)
    except SettingError as error:
        return [str(error)]
    except ServersLostError:
        return list(said)


def missed(dataset, arrived, add=lambda _, count: count):
    """What is said where this arrives of the dataset, and whether it looks as it does without a count."""
    said.clear()
    counted = pipeline.count_elements(arrived, dataset, pipeline.read_graph(dataset), "NAME", 2, add)
    assert counted.element_spec == arrived.element_spec
    for _ in counted.take(1):  # an epoch that is not read to its end
        pass
    assert not said
    assert sum(1 for _ in counted.prefetch(2)) == sum(1 for _ in arrived)
    return list(said)


def in_python(number):
    return tf.py_function(lambda value: value, [number], tf.int64)


def named(number):
    return number, {"image": tf.zeros([4]), "name": tf.constant("a")}


def served(dataset):
    """What TensorFlow's own call makes of it, which tells a dispatcher."""
    told = {"processing_mode": "distributed_epoch", "service": dispatcher.target, "job_name": "a"}
    return dataset.apply(tf.data.experimental.service.distribute(**told))


def of_one(dataset):
    """What is said in a job with one data host."""
    both = os.environ["SM_RESOURCE_CONFIG"]
    first = [
        {"instance_group_name": "cpus", "hosts": ["algo-1"]},
        {"instance_group_name": "gpus", "hosts": ["algo-2", "algo-3"]},
    ]
    os.environ["SM_RESOURCE_CONFIG"] = json.dumps({"instance_groups": first})
    try:
        return heard(dataset)
    finally:
        os.environ["SM_RESOURCE_CONFIG"] = both


dispatcher = tf.data.experimental.service.DispatchServer()
numbers, less = tf.data.Dataset.range(960), tf.data.Dataset.range(900)
files = tf.data.Dataset.list_files([__file__, json.__file__])
print(json.dumps({
    "shuffle": heard(numbers.shuffle(500).map(named).batch(32)),
    "list_files": heard(files),
    "list_files in order": heard(tf.data.Dataset.list_files([__file__], shuffle=False)),
    "shuffle where each worker has all": heard(numbers.shuffle(500), mode="off"),
    "shuffle within a part": heard(numbers.interleave(lambda _: tf.data.Dataset.range(9).shuffle(9))),
    "py_function": heard(numbers.map(in_python)),
    "numpy_function in a part": heard(numbers.interleave(lambda _: less.map(in_python))),
    "from_generator": heard(tf.data.Dataset.from_generator(lambda: [1], output_signature=tf.TensorSpec([], tf.int32))),
    "take": heard(numbers.take(300).batch(32)),
    "skip": heard(numbers.map(named).skip(100)),
    "enumerate": heard(numbers.enumerate()),
    "shard": heard(numbers.shard(2, 0)),
    "zip": heard(tf.data.Dataset.zip((numbers, less))),
    "unique": heard(numbers.unique()),
    "take while": heard(numbers.take_while(lambda number: number < 9)),
    "a running state": heard(numbers.scan(tf.constant(0, tf.int64), lambda state, number: (state + 1, number))),
    "assert": heard(numbers.apply(tf.data.experimental.assert_cardinality(960))),
    "snapshot": heard(numbers.snapshot(tempfile.mkdtemp())),
    "csv": heard(tf.data.experimental.CsvDataset([__file__], [tf.string])),
    "twice": heard(served(numbers).map(lambda number: number)),
    "twice, counted": heard(pipeline.count_elements(served(numbers), numbers, pipeline.read_graph(numbers), "NAME", 2)),
    "take within a part": heard(numbers.interleave(lambda _: tf.data.Dataset.range(9).skip(1).take(3))),
    "take all": heard(numbers.take(-1).skip(0)),
    "take where each worker has all": heard(numbers.take(300), mode="off"),
    "snapshot where each worker has all": heard(numbers.snapshot(tempfile.mkdtemp()), mode="off"),
    "take of one": of_one(numbers.take(300)),
    "all came": missed(numbers.map(named).batch(32).prefetch(2), numbers.map(named).batch(7)),
    "samples": missed(numbers.map(named).batch(32).prefetch(2), less.map(named).batch(32).prefetch(2)),
    "elements": missed(numbers, less),
    "batches": missed(numbers.batch(32, drop_remainder=True), less.batch(32, drop_remainder=True)),
    "a batch left out": missed(numbers.batch(32, drop_remainder=True), numbers.batch(32, drop_remainder=True).take(29)),
    "two took it": missed(numbers, less, lambda epoch, count: count + 59 + epoch),
    "another one is not through": missed(numbers, less, lambda epoch, count: None),
    "unknown": missed(numbers.filter(lambda number: number < 900), less),
}))  # fmt: skip
