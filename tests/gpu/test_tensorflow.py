"""TensorFlow computes on its GPUs what it should: products, training, XLA, mixed precision, sums over all of them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

SIZE = 1024
LEARNING_RATE = 0.1
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
GPU, CPU = "/GPU:0", "/CPU:0"


def require_bfloat16(tf: ModuleType, precision: str) -> None:
    """Skip where the precision is bfloat16, which this TensorFlow or its GPU has not."""
    release = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if precision.endswith("bfloat16") and release < (2, 10):
        pytest.skip(f"bfloat16 on GPUs begins with TensorFlow 2.10, this is {tf.__version__}")


@pytest.mark.parametrize("precision", sorted(EPSILON))
def test_a_matrix_product_is_that_of_float64(tensorflow: ModuleType, precision: str) -> None:
    """Within the rounding of the sums, which are single precision below that, and of the result itself."""
    tf = tensorflow
    require_bfloat16(tf, precision)
    with tf.device(GPU):
        left, right = (tf.cast(tf.random.stateless_normal([SIZE, SIZE], [seed, 0]), precision) for seed in (1, 2))
        product = left @ right
        exact = tf.cast(left, tf.float64) @ tf.cast(right, tf.float64)
    assert "GPU" in product.device
    error = float(tf.reduce_max(tf.abs(tf.cast(product, tf.float64) - exact)))
    sums = EPSILON["float64" if precision == "float64" else "float32"] * 4 * SIZE
    assert error <= sums + 4 * EPSILON[precision] * float(tf.reduce_max(tf.abs(exact)))


def train_once(tf: ModuleType, device: str) -> list[Any]:
    """Loss and parameters of one step of gradient descent: a convolution, which is cuDNN's on a GPU, and a product."""
    with tf.device(device):
        kernel = tf.Variable(tf.random.stateless_normal([3, 3, 3, 8], [1, 0]) * 0.1)
        weights = tf.Variable(tf.random.stateless_normal([6 * 6 * 8, 10], [2, 0]) * 0.1)
        images = tf.random.stateless_normal([32, 8, 8, 3], [3, 0])
        classes = tf.random.stateless_uniform([32], [4, 0], maxval=10, dtype=tf.int32)
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv2d(images, kernel, strides=1, padding="VALID"))
            scores = tf.reshape(hidden, [32, -1]) @ weights
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=scores))
        for variable, gradient in zip((kernel, weights), tape.gradient(loss, (kernel, weights))):
            variable.assign_sub(LEARNING_RATE * gradient)
    return [loss.numpy(), kernel.numpy(), weights.numpy()]


def test_a_training_step_is_that_of_the_cpu(tensorflow: ModuleType) -> None:
    for found, expected in zip(train_once(tensorflow, GPU), train_once(tensorflow, CPU)):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_xla_compiles_for_the_gpu_what_the_plain_function_computes(tensorflow: ModuleType) -> None:
    """Needs XLA's ptxas and libdevice: atan2 is a function of the latter."""
    tf = tensorflow

    def smooth(values: Any) -> Any:
        return tf.atan2(tf.tanh(values), tf.exp(-values * values)) + tf.sin(values)

    with tf.device(GPU):
        values = tf.linspace(-3.0, 3.0, 10_000)
        compiled = tf.function(smooth, jit_compile=True)(values)
    assert "GPU" in compiled.device
    assert float(tf.reduce_max(tf.abs(compiled - smooth(values)))) < 1e-5


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_trains_with_parameters_in_single_precision(tensorflow: ModuleType, policy: str) -> None:
    tf = tensorflow
    require_bfloat16(tf, policy)
    values = tf.random.stateless_normal([256, 32], [1, 0])
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        hidden = tf.keras.layers.Dense(64, activation="relu")
        model = tf.keras.Sequential([hidden, tf.keras.layers.Dense(1, dtype="float32")])
        model.compile(optimizer="sgd", loss="mse")
        history = model.fit(values, tf.reduce_sum(values, 1, keepdims=True), epochs=5, verbose=0)
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    assert (hidden.compute_dtype, hidden.variable_dtype) == (policy.partition("_")[2], "float32")
    losses = history.history["loss"]
    assert losses[-1] < losses[0]


def test_memory_is_returned(tensorflow: ModuleType) -> None:
    """To TensorFlow's own pool, as soon as the tensor is gone; the pool is the process's until it ends."""
    tf = tensorflow

    def taken() -> int:
        return int(tf.config.experimental.get_memory_info("GPU:0")["current"])

    with tf.device(GPU):
        before = taken()
        block = tf.zeros([64 << 20])
        assert taken() >= before + (256 << 20)
        del block
        assert taken() == before


def test_nccl_sums_over_all_gpus(tensorflow: ModuleType) -> None:
    tf = tensorflow
    count = len(tf.config.list_physical_devices("GPU"))
    if count == 1:
        pytest.skip("one GPU only: TensorFlow uses NCCL from two on")
    strategy = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.NcclAllReduce())

    def summed() -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce("sum", tf.cast(context.replica_id_in_sync_group + 1, tf.float32))

    found = strategy.experimental_local_results(tf.function(strategy.run)(summed))
    assert [float(each) for each in found] == [count * (count + 1) / 2] * count
