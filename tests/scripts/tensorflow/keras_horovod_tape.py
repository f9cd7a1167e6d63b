"""A training loop of one's own with Horovod's gradient tape, a Keras model and a compiled step."""

import os

import horovod.tensorflow as hvd
import numpy as np
import report
import tensorflow as tf
from sklearn.datasets import load_digits

hvd.init()
tf.keras.utils.set_random_seed(7)
digits = load_digits()
images = (digits["data"] / 16).astype(np.float32)
labels = digits["target"].astype(np.int64)
dataset = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500]))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(1000).batch(32)

model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(10)])
loss_of = tf.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.optimizers.Adam(0.002 * hvd.size())


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        loss_value = loss_of(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    # after the first step, because the optimizer makes its variables in it
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        variables = opt.variables() if callable(opt.variables) else opt.variables
        hvd.broadcast_variables(variables, root_rank=0)
    return loss_value


for batch, (inputs, wanted) in enumerate(dataset.take(120 // hvd.size())):
    loss_value = training_step(inputs, wanted, batch == 0)
    if batch % 10 == 0 and hvd.local_rank() == 0:
        print(f"Step #{batch}\tLoss: {loss_value:.6f}")

loss = loss_of(labels[1500:1600], model(images[1500:1600]))
if hvd.rank() == 0:
    tf.train.Checkpoint(model=model, optimizer=opt).save(os.path.join(os.environ["SM_MODEL_DIR"], "checkpoint"))
report.write(hvd.rank(), hvd.size(), loss)
