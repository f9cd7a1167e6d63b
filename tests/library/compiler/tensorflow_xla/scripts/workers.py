"""MultiWorkerMirroredStrategy: one replica in each process of TF_CONFIG; argv[1]: Keras's fit, or a loop."""

import sys

import tensorflow as tf
from models import collector, data, finish, keras_of

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else runs in TensorFlow
keras, losses = keras_of("tf_keras"), []
x, y = data(8 * 12)
with strategy.scope():
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, activation="gelu"), keras.layers.Dense(2)]
    )
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
if sys.argv[1] == "fit":
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model.fit(dataset, verbose=0, callbacks=[collector(keras, losses)])
else:
    optimizer = model.optimizer

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) / strategy.num_replicas_in_sync
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce("sum", strategy.run(replica, args=batch), axis=None)

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8)):
        losses.append(float(step(batch)))
finish(losses, model.get_weights())
