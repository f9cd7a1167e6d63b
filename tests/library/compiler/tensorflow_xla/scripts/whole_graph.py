"""Prints the operations of functions that XLA compiles, made plainly and with what they share, and their values."""

import json

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.whole_graph import shared_operations

OPERATIONS = ("Sqrt", "Relu", "StatelessCase")


def alike(x):
    first, second = tf.sqrt(x), tf.sqrt(x + 1.0)
    return tf.nn.relu(first - second) + tf.sqrt(x[0])


def of_a_shape(x):
    """Two roots that XLA must know, as they make a shape."""
    side, again = (int_of(tf.sqrt(tf.cast(tf.size(part), tf.float32))) for part in (x, x + 1.0))
    return tf.reshape(x, [side, again])


def int_of(value):
    return tf.cast(value, tf.int32)


def differentiated(x):
    """By a tape around another function that XLA compiles."""
    roots = tf.function(lambda part: tf.sqrt(part) + tf.sqrt(part * 2.0), jit_compile=True)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(roots(x))
    return tape.gradient(y, x)


def found(function, x):
    compiled = tf.function(function, jit_compile=True)
    nodes = [node.op for node in compiled.get_concrete_function(x).function_def.node_def]
    return [[nodes.count(kind) for kind in OPERATIONS], tf.reshape(compiled(x), [-1]).numpy().tolist()]


result = {}
x = tf.constant([[1.0, 4.0, 9.0, 16.0]] * 4)
for function in (alike, of_a_shape, differentiated):
    plain = found(function, x)
    with shared_operations():
        result[function.__name__] = [plain, found(function, x)]
print(json.dumps(result))
