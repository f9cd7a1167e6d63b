"""Fine-tunes a small TensorFlow BERT with Keras `fit`, compiled by XLA; data are sentences made on the spot."""

import argparse
import os
import random

import numpy as np
import report
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertTokenizerFast, TFBertForSequenceClassification

GOOD, BAD = ["great", "lovely", "brilliant", "moving"], ["dull", "awful", "tedious", "bland"]


def reviews(number, seed):
    dice = random.Random(seed)
    labels = [dice.randrange(2) for _ in range(number)]
    return [f"The film was {dice.choice(GOOD if label else BAD)} again." for label in labels], np.array(labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--train_batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--jit_compile", type=lambda word: word in ("True", "1"), default=True)
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    args, _ = parser.parse_known_args()
    tf.keras.utils.set_random_seed(1)  # of Python and numpy too, by which Keras 2 makes its first weights

    texts, labels = reviews(160, seed=1)
    trained = BertWordPieceTokenizer()
    trained.train_from_iterator(texts, vocab_size=100, show_progress=False)
    trained.save_model("/tmp")
    tokenizer = BertTokenizerFast("/tmp/vocab.txt")
    encoded = tokenizer(texts, padding="max_length", max_length=16, truncation=True, return_tensors="np")

    config = BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip
    model = TFBertForSequenceClassification(config)
    optimizer = tf.keras.optimizers.Adam(learning_rate=args.learning_rate)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"], jit_compile=args.jit_compile)
    history = model.fit(dict(encoded), labels, epochs=args.epochs, batch_size=args.train_batch_size, verbose=2)

    model.save_pretrained(args.model_dir)
    tokenizer.save_pretrained(args.model_dir)
    again = TFBertForSequenceClassification.from_pretrained(args.model_dir)
    texts, labels = reviews(40, seed=2)
    encoded = tokenizer(texts, padding="max_length", max_length=16, return_tensors="tf")
    logits = again(encoded).logits
    report.write(
        0, 1, loss(labels, logits).numpy(),
        losses=history.history["loss"], accuracy=float((logits.numpy().argmax(1) == labels).mean()),
    )  # fmt: skip
