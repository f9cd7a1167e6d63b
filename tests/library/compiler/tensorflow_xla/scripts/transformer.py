"""A small BERT-like model of transformers, by fit; argv[1]: `fit`, or `loop` for a loop of the script's own."""

import sys

import numpy as np
import tensorflow as tf
from models import collector, finish
from transformers import BertConfig, TFBertForSequenceClassification

tf.keras.utils.set_random_seed(7)
config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    num_labels=2,
)
model = TFBertForSequenceClassification(config)
optimizer = tf.keras.optimizers.SGD(1e-2)
generator, losses = np.random.default_rng(3), []
ids = generator.integers(1, 50, (4 * 10, 12)).astype("int32")
labels = generator.integers(0, 2, 4 * 10).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices(({"input_ids": ids, "labels": labels}, labels)).batch(4)
if sys.argv[1] == "fit":
    model.compile(optimizer=optimizer)
    model.fit(dataset, verbose=0, callbacks=[collector(tf.keras, losses)])
else:

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True).loss)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [float(step(batch)) for batch, _ in dataset]
finish(losses, model.get_weights())
