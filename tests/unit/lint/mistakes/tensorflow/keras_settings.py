"""Keras `fit` with XLA, and settings that work against it."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.callbacks import ModelCheckpoint
from transformers import AutoTokenizer, DataCollatorWithPadding

texts = tf.data.TextLineDataset("reviews.txt")
vectorize = keras.layers.TextVectorization()
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
collator = DataCollatorWithPadding(tokenizer, return_tensors="tf")  # mistake: DLC212
train = texts.map(vectorize).padded_batch(32, drop_remainder=True)  # mistake: DLC212
numbers = tf.data.Dataset.range(1000).map(lambda x: (tf.cast(x, tf.float32), x)).batch(32)  # mistake: DLC211
validation = tf.data.Dataset.range(1000).map(lambda x: (tf.cast(x, tf.float32), x)).batch(32)

model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse", jit_compile=True)
model.fit(
    numbers,
    validation_data=validation,
    epochs=2,
    callbacks=[ModelCheckpoint("last.keras", save_freq=1)],  # mistake: DLC206
)

held = tf.data.Dataset.range(100).batch(32)
ds_val = tf.data.Dataset.range(100).batch(32)
shown = tf.data.Dataset.range(100).batch(32)
model.fit(train, validation_data=held)
for x, y in shown:
    print(model(x), y)


def make(count):
    return tf.data.Dataset.range(count).batch(32)


model.fit(train, validation_data=make(100))
model.evaluate(make(100))
ds_dev = make(100)
if "debug" in keras.__version__:
    tf.config.run_functions_eagerly(True)
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)

slow = keras.Sequential([keras.layers.Dense(1)])
slow.compile(optimizer="adam", loss="mse", run_eagerly=True)  # mistake: DLC202
slow.fit(train.repeat(2), epochs=1)
