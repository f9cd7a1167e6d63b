"""A compiled step that is traced again and again, and read each time."""

import tensorflow as tf
from data import batches, build_model

model = build_model()
optimizer = tf.keras.optimizers.SGD(0.1)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, "out", max_to_keep=3)


@tf.function
def train_step(x, y, step):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / tf.cast(step + 1, tf.float32)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for step, (x, y) in enumerate(batches("train")):
    loss = train_step(x, y, step)
    print("loss", loss)  # mistake: DLC203
    manager.save()  # mistake: DLC206

for step in range(1000):
    x, y = next(batches("train"))
    loss = train_step(x, y, 2 * step)
    history = float(loss)  # mistake: DLC203
    evaluate = tf.function(lambda batch: model(batch, training=False))  # mistake: DLC205
    if step % 100 == 0:
        print(step, loss.numpy(), evaluate(x), history)

dataset = tf.data.Dataset.range(1000).batch(10)
for x in dataset:
    late = tf.function(lambda batch: model(batch, training=False))  # mistake: DLC205
    late(x)
for index, x in enumerate(dataset.prefetch(1)):

    @tf.function  # mistake: DLC205
    def shown(batch):
        return model(batch, training=False)

    shown(x)
for one in [model, build_model()]:
    fast = tf.function(one)
    fast(x)
for name, one in enumerate([model, build_model()]):
    fast = tf.function(one)
    fast(x)
