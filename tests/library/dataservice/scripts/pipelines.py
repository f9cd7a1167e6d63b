"""What `distribute` says of pipelines that do not suit it, and how many elements are missed; prints JSON. No server."""

import json
import logging

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
    "all came": missed(numbers.map(named).batch(32).prefetch(2), numbers.map(named).batch(7)),
    "samples": missed(numbers.map(named).batch(32).prefetch(2), less.map(named).batch(32).prefetch(2)),
    "elements": missed(numbers, less),
    "batches": missed(numbers.batch(32, drop_remainder=True), less.batch(32, drop_remainder=True)),
    "a batch left out": missed(numbers.batch(32, drop_remainder=True), numbers.batch(32, drop_remainder=True).take(29)),
    "two took it": missed(numbers, less, lambda epoch, count: count + 59 + epoch),
    "another one is not through": missed(numbers, less, lambda epoch, count: None),
    "unknown": missed(numbers.filter(lambda number: number < 900), less),
}))  # fmt: skip
