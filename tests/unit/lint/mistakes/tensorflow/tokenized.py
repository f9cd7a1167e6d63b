"""Texts for a step that XLA compiles: in parts of their own lengths, and all at once."""

import tensorflow as tf
from transformers import AutoTokenizer, TFAutoModelForSequenceClassification
from user_data import collate, rows, texts

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = TFAutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
model.compile(optimizer=tf.keras.optimizers.Adam(3e-5), jit_compile=True)


def tokenize(rows):
    return tokenizer(rows["text"], padding=True, truncation=True)  # mistake: DLC213


def tokenize_all(rows):
    return tokenizer(rows["text"], padding="longest", truncation=True)


def tokenize_some(rows):
    return tokenizer(rows["text"], padding=True, pad_to_multiple_of=64)


train = rows.map(tokenize, batched=True)
more = rows.map(lambda some: tokenizer(some["text"], padding="longest"), batched=True)  # mistake: DLC213
whole = rows.map(tokenize_all, batched=True, batch_size=len(rows))
some = rows.map(tokenize_some, batched=True)
together = tokenizer(texts, padding=True, return_tensors="np")
data = model.prepare_tf_dataset(more, batch_size=16, tokenizer=tokenizer)  # mistake: DLC213
padded = model.prepare_tf_dataset(more, batch_size=16, tokenizer=tokenizer, collate_fn=collate)
model.fit(data, epochs=2)
