"""A loop of one's own that runs operation by operation."""

import tensorflow as tf

(images, labels), _ = tf.keras.datasets.mnist.load_data()
dataset = tf.data.Dataset.from_tensor_slices((images[..., None] / 255.0, labels)).shuffle(1000).batch(64)
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()


def train_step(x, y):
    with tf.GradientTape() as tape:  # mistake: DLC201
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(3):
    for x, y in dataset:
        train_step(x, y)

weight = tf.Variable(0.0)
for x in [1.0, 2.0, 3.0]:
    with tf.GradientTape() as tape:  # mistake: DLC201
        loss = (weight - x) ** 2
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
