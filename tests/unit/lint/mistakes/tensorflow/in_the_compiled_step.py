"""What XLA cannot compile, in a step for it."""

import horovod.tensorflow as hvd
import tensorflow as tf
from data import build_model, loss_of

hvd.init()
strategy = tf.distribute.MirroredStrategy()
model = build_model()
optimizer = tf.keras.optimizers.Adam()


def augment(x):
    noise = tf.random.normal(tf.shape(x), seed=1)  # mistake: DLC224
    return x + 0.1 * noise


def exchange(gradients):
    return [hvd.allreduce(gradient) for gradient in gradients]  # mistake: DLC221


@tf.function(jit_compile=True)
def train_step(x, y):
    x = augment(x)
    hard = tf.boolean_mask(x, y > 0)  # mistake: DLC225
    where = tf.where(y > 0)  # mistake: DLC225
    scale = tf.py_function(lambda: 1.0, [], tf.float32)  # mistake: DLC225
    steps = tf.TensorArray(tf.float32, size=0, dynamic_size=True)  # mistake: DLC223
    _, total = tf.while_loop(lambda i, t: t < 10.0, lambda i, t: (i + 1, t + 1.0), (0, 0.0))  # mistake: DLC222
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True)) * scale + total
    gradients = exchange(tape.gradient(loss, model.trainable_variables))
    mean = strategy.reduce("MEAN", loss, axis=None)  # mistake: DLC221
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return mean, hard, where, steps.stack()


@tf.function(experimental_compile=True)  # mistake: DLC226
def predict(x):
    return model(x, training=False)


tf.config.run_functions_eagerly(True)  # mistake: DLC202
