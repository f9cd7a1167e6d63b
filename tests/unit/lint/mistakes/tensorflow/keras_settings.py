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

slow = keras.Sequential([keras.layers.Dense(1)])
slow.compile(optimizer="adam", loss="mse", run_eagerly=True)  # mistake: DLC202
slow.fit(train.repeat(2), epochs=1)
